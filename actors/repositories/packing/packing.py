"""The source of a commit: its files and a shallow ``.git``, as one archive."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from actors.repositories.fetching.git import TOO_LARGE, CommitRefused, GitError
from actors.repositories.fetching.mirror import PACKING
from actors.repositories.fetching.remote import RemoteInvalid
from actors.repositories.packing.history import LFS_CLEAN, Checkout, add_history, make_history
from actors.repositories.packing.lfs import fetch_contents, pointers_in, without_excluded
from actors.repositories.packing.limited_buffer import LimitedBuffer
from actors.repositories.packing.submodules import MOST_SUBMODULES, submodules_of
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.repositories.fetching.mirror import Mirror
    from actors.repositories.packing.submodules import Submodule
    from actors.repositories.settings import SourceSettings


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
