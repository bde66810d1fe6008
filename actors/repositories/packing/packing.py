"""The source of a commit: its files, submodules, LFS and a shallow ``.git``, as one archive."""

from __future__ import annotations

import gzip
import re
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from actors.repositories.fetching.git import TOO_LARGE, CommitRefused
from actors.repositories.fetching.lfs import Selection, fetch_objects, object_path
from actors.repositories.fetching.mirror import PACKING
from actors.repositories.fetching.remote import GitError, RemoteInvalid
from actors.repositories.packing.history import LFS_CLEAN, Checkout, LimitedBuffer, add_history, make_history
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.repositories.fetching.mirror import Mirror
    from actors.repositories.settings import SourceSettings

MOST_SUBMODULES = 256
"""The most submodules of a commit, with theirs."""

_FILE = ".gitmodules"
_LINK, _BLOB = "160000", "100644"
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:(?P<oid>[0-9a-f]{64})\nsize (?P<size>[0-9]{1,15})\n"
)
_LARGEST = 1024
"""The most bytes of a pointer, by the specification of git LFS."""

_LONGEST_PATH = 4096
_AT_ONCE = 100


@immutable
class Submodule:
    """A folder of a commit that is a commit of another repository; ``url`` is as `.gitmodules` has it."""

    path: str
    url: str
    commit: str


def submodules_of(mirror: Mirror, commit: str) -> list[Submodule]:
    """Return the submodules of a commit. Raises CommitRefused for a `.gitmodules` that git cannot read.

    The tree decides: a path that is no submodule there, such as a link, is none. One without a URL stays empty.
    """
    try:
        if [kind for kind, _, _ in _entries(mirror, commit, _FILE)] != [_BLOB]:
            return []
        listed = mirror.run("config", "--blob", f"{commit}:{_FILE}", "-z", "--list")
        urls = dict(_urls(listed.decode(errors="surrogateescape")))
        if len(urls) > MOST_SUBMODULES:
            raise CommitRefused(f"{_FILE} names more than {MOST_SUBMODULES} submodules")
        links = {name: found for kind, found, name in _entries(mirror, commit, *urls) if kind == _LINK} if urls else {}
    except CommitRefused:
        raise
    except GitError as error:
        raise CommitRefused(f"{_FILE} cannot be read: {error}") from error
    return [Submodule(path, urls[path], found) for path, found in links.items()]


def _entries(mirror: Mirror, commit: str, *paths: str) -> Iterator[tuple[str, str, str]]:
    """Yield mode, object and path of those of the paths that a commit has."""
    listed = mirror.run("ls-tree", "-z", "--full-tree", commit, "--", *paths)
    for line in listed.decode(errors="surrogateescape").split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, _, name = facts.split(" ")
        yield mode, name, path


def _urls(listed: str) -> Iterator[tuple[str, str]]:
    """Yield path and URL of each submodule that has both, of the output of git config."""
    settings: dict[str, dict[str, str]] = {}
    for line in listed.split("\0"):
        key, _, value = line.partition("\n")
        section, _, rest = key.partition(".")
        name, _, key = rest.rpartition(".")
        if section == "submodule" and name and value:
            settings.setdefault(name, {})[key] = value
    for each in settings.values():
        path = each.get("path", "").rstrip("/")
        if "url" in each and 0 < len(path) <= _LONGEST_PATH and not {"", ".", ".."} & set(path.split("/")):
            yield path, each["url"]


@immutable
class Pointer:
    """The stand-in for a file in a commit: the hash of its content, and its size."""

    oid: str
    size: int

    def object_in(self, mirror: Mirror) -> Path:
        """Return the file that has the content, once it was fetched."""
        return object_path(mirror, self.oid)


def pointers_in(mirror: Mirror, files: Path, history: Path) -> dict[str, Pointer]:
    """Return the pointers in an archive of a commit, by path, that its attributes call files of git LFS.

    Raises GitError.
    """
    found = {}
    with tarfile.open(files) as tar:
        for member in tar:
            small = member.isreg() and member.size <= _LARGEST and len(member.name) <= _LONGEST_PATH
            content = tar.extractfile(member) if small else None
            if content is not None and (match := _POINTER.fullmatch(content.read())):
                found[member.name] = Pointer(match["oid"].decode(), int(match["size"]))
    paths = list(found)
    tracked: set[str] = set()
    for start in range(0, len(paths), _AT_ONCE):
        tracked |= _tracked(mirror, paths[start : start + _AT_ONCE], history)
    return {path: pointer for path, pointer in found.items() if path in tracked}


def without_excluded(mirror: Mirror, commit: str, pointers: Mapping[str, Pointer]) -> dict[str, Pointer]:
    """Return the pointers but for those that the `.lfsconfig` of the commit excludes from fetches."""
    chosen = Selection.of(mirror, commit)
    return {path: pointer for path, pointer in pointers.items() if chosen.has(path)}


def fetch_contents(mirror: Mirror, commit: str, pointers: Mapping[str, Pointer]) -> dict[str, Path]:
    """Return the files with the contents, by path. Raises CommitRefused, also for a wrong size."""
    missing = {each.oid: each.size for each in pointers.values() if not each.object_in(mirror).exists()}
    if missing:
        try:
            fetch_objects(mirror, commit, missing)
        except GitError as error:
            raise CommitRefused(f"the files of git LFS cannot be fetched: {error}") from error
    contents = {path: each.object_in(mirror) for path, each in pointers.items()}
    for path, content in contents.items():
        if content.stat().st_size != pointers[path].size:
            raise CommitRefused(f"{path} of git LFS has {content.stat().st_size} bytes, and not {pointers[path].size}")
    return contents


def _tracked(mirror: Mirror, paths: Iterable[str], history: Path) -> set[str]:
    """Return the paths that the `.gitattributes` of a repository's index give to git LFS."""
    asked = ("--work-tree=.", "check-attr", "-z", "--cached", "filter", "--", *paths)
    answer = mirror.git.run(*asked, at=history, seconds=mirror.seconds).decode(errors="surrogateescape").split("\0")
    return {path for path, value in zip(answer[0::3], answer[2::3], strict=False) if value == "lfs"}


@immutable
class Extras:
    """The optional parts of a source, besides the commit's own files.

    ``from_stranger`` is True for a commit of a fork. It may name any submodule of the repository's host, but not read
    it: so none is fetched with the credential.
    """

    submodules: bool = False
    lfs: bool = False
    from_stranger: bool = False


_NOTHING = Extras()


def pack_commit(
    mirror: Mirror,
    ref: str,
    commit: str,
    settings: SourceSettings,
    branches: Mapping[str, str] | None = None,
    extras: Extras = _NOTHING,
) -> bytes:
    """Return the gzipped tar of a commit, always the same. Raises GitError and CommitRefused.

    Its ``.git`` has the last ``depth`` commits and their tags, and ``branches`` with their commits, the default one
    first. It is on the branch that was pushed; for a tag on none.
    """
    checkout = Checkout(ref, commit, branches or {}, _public_url(mirror), of_fork=extras.from_stranger)
    buffer = LimitedBuffer(settings.max_mb * 2**20, CommitRefused(TOO_LARGE))
    with (
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        _Packer(tar, settings, extras, mirror.seconds).add(mirror, checkout)
    return buffer.getvalue()


class _Packer:
    """Adds a commit, its submodules, and theirs to an archive."""

    def __init__(self, tar: tarfile.TarFile, settings: SourceSettings, extras: Extras, seconds: float) -> None:
        self._tar = tar
        self._settings = settings
        self._extras = extras
        self._free = settings.max_mb * 2**20
        self._submodules = 0
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def add(self, mirror: Mirror, checkout: Checkout, prefix: str = "") -> None:
        try:
            self._add(mirror, checkout, prefix)
        except CommitRefused:
            raise
        except GitError:
            mirror.distrust()
            raise

    def _add(self, mirror: Mirror, checkout: Checkout, prefix: str) -> None:
        with tempfile.TemporaryDirectory(dir=mirror.folder, prefix=PACKING) as temporary:
            files, history = Path(temporary, "files.tar"), Path(temporary, "mirror.git")
            # An archive of the tree: that of a commit begins with a header that tarfile cannot read if no file follows.
            archive = ("archive", "--format=tar", "--end-of-options", f"{checkout.commit}^{{tree}}")
            mirror.git.write(files, *archive, at=mirror.path, seconds=mirror.seconds, max_bytes=self._free)
            self._claim(files.stat().st_size)
            make_history(mirror.git, mirror.path, history, checkout, self._settings.depth, mirror.seconds)
            contents = self._lfs(mirror, checkout.commit, files, history)
            submodules = submodules_of(mirror, checkout.commit) if self._extras.submodules else []
            if submodules:
                mirror.git.copy("config", "submodule.active", ".", at=history, seconds=mirror.seconds)
            self._add_files(files, contents, prefix)
            add_history(self._tar, history, prefix)
        for each in submodules:
            self._add_submodule(mirror, each, f"{prefix}{each.path}")

    def _lfs(self, mirror: Mirror, commit: str, files: Path, history: Path) -> dict[str, Path]:
        """Fetch the files of git LFS; return them by path."""
        if not self._extras.lfs or mirror.address is not None:
            return {}
        pointers = pointers_in(mirror, files, history)
        if not pointers:
            return {}
        wanted = without_excluded(mirror, commit, pointers)
        self._claim(sum(each.size for each in wanted.values()))
        mirror.git.copy("config", "filter.lfs.clean", LFS_CLEAN, at=history, seconds=mirror.seconds)
        return fetch_contents(mirror, commit, wanted)

    def _add_submodule(self, parent: Mirror, submodule: Submodule, path: str) -> None:
        self._submodules += 1
        if self._submodules > MOST_SUBMODULES:
            raise CommitRefused(f"the commit has more than {MOST_SUBMODULES} submodules, with theirs")
        if time.monotonic() > self._until:
            limit = f"{self._seconds:.0f} s: raise repositories.fetch_timeout"
            raise CommitRefused(f"the submodules took more than {limit}")
        try:
            mirror = parent.submodule(submodule.url, with_credential=not self._extras.from_stranger)
            mirror.fetch_commit(submodule.commit)
        except (GitError, RemoteInvalid) as error:
            raise CommitRefused(f"the submodule {path} at {submodule.url} cannot be fetched: {error}") from error
        self.add(mirror, Checkout(None, submodule.commit, url=_public_url(mirror)), f"{path}/")

    def _claim(self, size: int) -> None:
        """Count bytes before they are packed. Raises CommitRefused past the limit."""
        self._free -= size
        if self._free < 0:
            raise CommitRefused(TOO_LARGE)

    def _add_files(self, files: Path, contents: Mapping[str, Path], prefix: str) -> None:
        with tarfile.open(files) as found:
            for member in found:
                if ".git" in member.name.lower().split("/") or not (member.isreg() or member.issym() or member.isdir()):
                    continue  # git refuses a commit with such a name, so this is the second lock
                info = tarfile.TarInfo(f"{prefix}{member.name}")
                info.type, info.linkname, info.size = member.type, member.linkname, member.size
                info.mode = 0o755 if member.mode & 0o111 or member.isdir() else 0o644
                if member.name in contents:
                    info.size = contents[member.name].stat().st_size
                    with contents[member.name].open("rb") as content:
                        self._tar.addfile(info, content)
                else:
                    self._tar.addfile(info, found.extractfile(member) if member.isreg() else None)


def _public_url(mirror: Mirror) -> str | None:
    return None if mirror.git.remote.protocol == "file" else mirror.git.remote.url
