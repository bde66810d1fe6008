"""The HTTP API of a server of git LFS: the batch of a download, and its objects.

git-lfs itself would follow the server to any address, also of this host. The API is described at
https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import tempfile
from base64 import b64encode
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import httpcore
from pydantic import ValidationError

from actors.repositories.fetching.addresses import allowed_addresses
from actors.repositories.fetching.git import CommitRefused, GitError
from actors.timed_http import Deadline, TimedBackend
from storage import GitCredential, JsonModel, error_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.repositories.fetching.lfs_access import LfsAccess
    from actors.repositories.fetching.mirror import Mirror

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_HEADERS = {"User-Agent": "ci-daemon", "Accept-Encoding": "identity"}
_LONGEST_WAIT = 60.0
_MOST_BYTES = 4 << 20
_MOST_REDIRECTS = 5
_SHOWN = 200
_OK, _UNAUTHORIZED = 200, 401
_REDIRECTS = {301, 302, 303, 307, 308}


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
    """Downloads for one mirror. It blocks, and belongs to one thread; `close` ends its connections.

    Connections go only to addresses that strangers may send this service to, and to the repository's own host. The
    repository's password goes to that alone, and only encrypted.
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
