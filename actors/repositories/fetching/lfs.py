"""Objects of git LFS: how a repository's host says to fetch them, and the server they come from."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import ssl
import tempfile
import time
from base64 import b64encode
from contextlib import ExitStack, contextmanager
from dataclasses import field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpcore
from pydantic import ValidationError

from actors.repositories.fetching.git import CommitRefused, LimitReached, authentication
from actors.repositories.fetching.remote import GitError
from actors.repositories.fetching.remote_host import allowed_addresses
from actors.timed_http import Deadline, TimedBackend
from actors.vms.watched_process import run
from storage import GitCredential, JsonModel, error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.repositories.fetching.mirror import Mirror


_AT_ONCE = 100
_SECONDS = 60.0
_MOST_OF_ACCESS = 1 << 16
_REFUSED_BY_SSH = 255
"""The status of ssh itself; any other is that of the host's program."""
_MEDIA_TYPE = "application/vnd.git-lfs+json"
_HEADERS = {"User-Agent": "ci-daemon", "Accept-Encoding": "identity"}
_LONGEST_WAIT = 60.0
_MOST_BYTES = 4 << 20
_MOST_REDIRECTS = 5
_SHOWN = 200
_OK, _UNAUTHORIZED = 200, 401
_REDIRECTS = {301, 302, 303, 307, 308}


@immutable
class Selection:
    """The files that a repository wants fetched: patterns of its `.lfsconfig`, with commas between."""

    include: str = ""
    exclude: str = ""

    @classmethod
    def of(cls, mirror: Mirror, commit: str) -> Selection:
        """Read the selection of a commit."""
        return cls(*(_setting(mirror, commit, f"lfs.fetch{each}") for each in ("include", "exclude")))

    def has(self, path: str) -> bool:
        """Tell whether a file is wanted."""
        return (not self.include or _matches(self.include, path)) and not _matches(self.exclude, path)


def object_path(mirror: Mirror, oid: str) -> Path:
    """Return the file of an object in a mirror, as git-lfs names it."""
    return mirror.path / "lfs" / "objects" / oid[:2] / oid[2:4] / oid


def fetch_objects(mirror: Mirror, commit: str, objects: Mapping[str, int]) -> None:
    """Fetch objects of a commit, whose sizes are given by name. Raises GitError.

    Over HTTP the service asks for them itself. git-lfs fetches from paths, and by ssh from hosts that have all of the
    protocol there.
    """
    size = sum(objects.values())
    if size > mirror.git.free_bytes():
        raise LimitReached(f"{size >> 20} MB more would be too much: raise repositories.max_mirror_gb")
    remote = mirror.git.remote
    match remote.protocol:
        case "file":
            _fetch_by_git_lfs(mirror, commit)
        case "https":
            _fetch_over_http(mirror, LfsAccess(remote.lfs_url), objects)
        case "ssh" if access := access_by_ssh(mirror):
            _fetch_over_http(mirror, access, objects)
        case "ssh":
            try:
                _fetch_by_git_lfs(mirror, commit)
            except GitError as error:
                missing = f"{remote.host} has no git-lfs-authenticate, and fetching by git-lfs-transfer failed"
                raise GitError(f"{missing}: {error}") from error


def _fetch_over_http(mirror: Mirror, access: LfsAccess, objects: Mapping[str, int]) -> None:
    server, waiting = LfsServer(mirror), iter(objects.items())
    try:
        while some := dict(islice(waiting, _AT_ONCE)):
            for oid, action in server.batch(access, some).items():
                target = object_path(mirror, oid)
                target.parent.mkdir(parents=True, exist_ok=True)
                server.download(action, oid, some[oid], target)
    finally:
        server.close()


def _fetch_by_git_lfs(mirror: Mirror, commit: str) -> None:
    chosen = Selection.of(mirror, commit)
    patterns = (f"--include={chosen.include}", f"--exclude={chosen.exclude}")
    url = mirror.git.remote.lfs_url
    mirror.git.fetch(
        "lfs", "fetch", *patterns, url, commit, at=mirror.path, seconds=mirror.seconds, credential=mirror.credential
    )


def _setting(mirror: Mirror, commit: str, name: str) -> str:
    try:
        return mirror.run("config", "--blob", f"{commit}:.lfsconfig", "--get", name).decode(errors="replace").strip()
    except GitError:  # there is none
        return ""


def _matches(patterns: str, path: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few repositories have such patterns

    return GitIgnoreSpec.from_lines(each.strip() for each in patterns.split(",")).match_file(path)


@immutable
class LfsAccess:
    """The URL of an HTTP API of git LFS, and the headers that its requests need."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class _Answer(JsonModel):
    href: str | None = None
    header: dict[str, str] | None = None


def access_by_ssh(mirror: Mirror) -> LfsAccess | None:
    """Return what a host answers to `git-lfs-authenticate`; None if it has no such program.

    Raises GitError.
    """
    remote, deadline = mirror.git.remote, time.monotonic() + min(mirror.seconds, _SECONDS)
    path = unquote(remote.split()[1]) if "://" in remote.url else remote.split()[1]
    command = f"git-lfs-authenticate {shlex.quote(path)} download"
    with tempfile.TemporaryFile() as out, authentication(remote, mirror.credential) as given:

        def check() -> None:
            if time.monotonic() > deadline:
                raise LimitReached(f"{remote.host} does not answer git-lfs-authenticate in time")
            if out.tell() > _MOST_OF_ACCESS:
                raise LimitReached(f"{remote.host} answers git-lfs-authenticate with more than {_MOST_OF_ACCESS} bytes")

        argv = (*given.ssh, "-p", str(remote.port), "--", remote.ssh_destination, command)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        result = run(argv, cwd=mirror.folder, environment=environment, check=check, stdout=out)
        check()
        out.seek(0)
        answered = out.read()
    if result.status == _REFUSED_BY_SSH:
        raise GitError(f"{remote.host} does not let git-lfs-authenticate run: {result.output.strip()[-_SHOWN:]}")
    if result.status != 0:
        return None
    try:
        answer = _Answer.model_validate_json(answered)
    except ValidationError:
        raise GitError(f"{remote.host} answers git-lfs-authenticate with something else than a URL") from None
    usual = f"https://{remote.host}/{quote(path.strip('/').removesuffix('.git'))}.git/info/lfs"
    return LfsAccess((answer.href or usual).rstrip("/"), answer.header or {})


class _Action(JsonModel):
    href: str
    header: dict[str, str] | None = None


class _Error(JsonModel):
    code: int
    message: str = ""


class _Object(JsonModel):
    oid: str
    actions: dict[str, _Action] | None = None
    error: _Error | None = None


class _Batch(JsonModel):
    transfer: str | None = None
    objects: list[_Object]


class _Deadline(Deadline):
    """One deadline for all waits together; each wait has a limit of its own, too."""

    def left(self) -> float:
        return min(super().left(), _LONGEST_WAIT)


class LfsServer:
    """The HTTP API of a server of git LFS: the batch of a download, and its objects.

    It is for one mirror, blocks, and belongs to one thread; `close` ends its connections. The API is described at
    https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md.

    Connections go only to addresses that strangers may send this service to, and to the repository's own host; git-lfs
    itself would follow the server to any address, also of this host. The repository's password goes to its host alone,
    and only encrypted.
    """

    def __init__(self, mirror: Mirror, deadline: Deadline | None = None) -> None:
        self._remote = mirror.git.remote
        self._settings = mirror.settings
        self._credential = mirror.credential
        self._deadline = deadline or _Deadline(mirror.seconds)
        self._open = ExitStack()
        self._pools: dict[str, httpcore.ConnectionPool] = {}

    def close(self) -> None:
        """Close all connections."""
        self._open.close()

    def batch(self, access: LfsAccess, objects: Mapping[str, int]) -> dict[str, _Action]:
        """Return where the server has some objects, by name; ``objects`` has their sizes.

        Raises GitError, and CommitRefused for an object that the server does not have.
        """
        asked = {
            "operation": "download",
            "transfers": ["basic"],
            "hash_algo": "sha256",
            "objects": [{"oid": oid, "size": size} for oid, size in objects.items()],
        }
        url = f"{access.url}/objects/batch"
        headers = {**access.headers, "Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        content = bytearray()
        with self._answered("POST", url, headers, json.dumps(asked).encode()) as response:
            for chunk in response.iter_stream():
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise GitError(f"{_host(url)} answers more than {_MOST_BYTES} bytes about files of git LFS")
        try:
            answer = _Batch.model_validate_json(bytes(content))
        except ValidationError:
            raise GitError(f"{_host(url)} answers something that the API of git LFS does not") from None
        if answer.transfer not in {None, "basic"}:
            raise GitError(f"{_host(url)} has files of git LFS only by {_printable(answer.transfer or '')}")
        found = {each.oid: each for each in answer.objects}
        return {oid: _download(found.get(oid), oid, url) for oid in objects}

    def download(self, action: _Action, oid: str, size: int, target: Path) -> None:
        """Write an object to a file, once all of it is there and right. Raises GitError and CommitRefused."""
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="tmp_") as folder:
            written, found, left = Path(folder, "object"), hashlib.sha256(), size
            with (
                written.open("wb") as file,
                self._answered("GET", action.href, {**(action.header or {}), "Accept": "*/*"}) as response,
            ):
                for chunk in response.iter_stream():
                    left -= len(chunk)
                    if left < 0:
                        raise CommitRefused(f"{oid} has more bytes than the {size} of its pointer")
                    found.update(chunk)
                    file.write(chunk)
            if left or found.hexdigest() != oid:
                raise CommitRefused(f"{_host(action.href)} sends something else than {oid}")
            written.replace(target)

    @contextmanager
    def _answered(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Iterator[httpcore.Response]:
        """Yield a successful answer, of which the body follows. Raises GitError."""
        try:
            with self._final_answer(method, url, headers, body) as response:
                yield response
        except httpcore.TimeoutException:
            raise GitError(f"{_host(url)} does not answer in time") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError) as error:
            raise GitError(f"{_host(url)} cannot be reached: {error_reason(error)}") from None

    @contextmanager
    def _final_answer(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> Iterator[httpcore.Response]:
        password = self._password(url, headers)
        for _ in range(_MOST_REDIRECTS):
            with self._sent(method, url, headers, body) as response:
                if response.status == _UNAUTHORIZED and password:
                    headers, password = {**headers, "Authorization": password}, ""
                    continue
                answered = {name.lower(): value for name, value in response.headers}
                location = answered.get(b"location", b"").decode("latin-1")
                if response.status not in _REDIRECTS or not location or method != "GET":
                    if response.status != _OK:
                        raise _refusal(url, response.status)
                    yield response
                    return
                target = urljoin(url, location)
                if _secure(url) and not _secure(target):
                    raise GitError(f"{_host(url)} redirects from https to {_printable(target)}")
                if _origin(target) != _origin(url):
                    headers, password = {"Accept": "*/*"}, ""  # what one server asks for is no business of another
                url = target
        raise GitError(f"{_host(url)} redirects too often")

    @contextmanager
    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Iterator[httpcore.Response]:
        parts = urlsplit(url)
        if parts.scheme not in {"https", "http"} or not parts.hostname or not url.isascii() or not url.isprintable():
            raise GitError(f"git LFS is not fetched from {_printable(url)}: only from https and http URLs")
        sent = {**headers, **_HEADERS} | ({"Content-Length": str(len(body))} if body else {})
        with self._pool(parts.scheme).stream(method, url, headers=list(sent.items()), content=body) as response:
            yield response

    def _pool(self, scheme: str) -> httpcore.ConnectionPool:
        if scheme not in self._pools:
            backend = TimedBackend(self._deadline, self._resolver(scheme))
            pool = httpcore.ConnectionPool(
                ssl_context=self._context if scheme == "https" else None, network_backend=backend
            )
            self._pools[scheme] = self._open.enter_context(pool)
        return self._pools[scheme]

    def _resolver(self, scheme: str) -> Callable[[str, int], list[str]]:
        """Return what finds the addresses that may be connected to.

        The repository's own host may be anywhere, because the person who connected the repository chose it. Over https
        its certificate proves that it is that host. Over http a name may lead to an address nearby later, so that is
        trusted only for repositories by ssh, which the owner of this service connects.
        """
        closed = scheme == "http" and self._remote.protocol != "ssh"

        def resolve(host: str, port: int) -> list[str]:
            own = host.strip("[]").lower() == self._remote.host.strip("[]").lower()
            return allowed_addresses(host, port, self._settings, anywhere=own and not closed)

        return resolve

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._settings.ca_file)

    def _password(self, url: str, headers: Mapping[str, str]) -> str:
        """Return the header with the repository's password, if it is for this URL and there is no other."""
        given = any(name.lower() == "authorization" for name in headers)
        if given or not isinstance(self._credential, GitCredential) or _origin(url) != _origin(self._remote.url):
            return ""
        both = f"{self._credential.username}:{self._credential.password}"
        return f"Basic {b64encode(both.encode()).decode()}"


def _download(found: _Object | None, oid: str, url: str) -> _Action:
    if found is not None and found.error is None and found.actions and "download" in found.actions:
        return found.actions["download"]
    error = found.error if found else None
    reason = f": {error.code} {_printable(error.message)}" if error else ""
    raise CommitRefused(f"{_host(url)} does not have {oid}{reason}")


def _refusal(url: str, status: int) -> GitError:
    if status in _REDIRECTS:
        return GitError(f"{_host(url)} redirects: give the URL that it redirects to")
    return GitError(f"{_host(url)} answers {status}")


def _secure(url: str) -> bool:
    return urlsplit(url).scheme == "https"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _host(url: str) -> str:
    return _printable(url.partition("://")[2].partition("/")[0].rpartition("@")[2] or url)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:_SHOWN]
