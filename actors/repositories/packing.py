"""The source of a commit: its files and a shallow ``.git``, as one archive."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from actors.repositories.git import CommitRefused, GitError, TooLarge
from actors.repositories.history import Checkout, add_history, make_history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.repositories.mirror import Mirror
    from actors.repositories.settings import SourceSettings

__all__ = ["pack_commit"]


def pack_commit(
    mirror: Mirror, ref: str, commit: str, settings: SourceSettings, branches: Mapping[str, str] | None = None
) -> bytes:
    """Return the gzipped tar of a commit, always the same. Raises GitError and CommitRefused.

    Its ``.git`` has the last ``depth`` commits and their tags, and ``branches`` with their commits, the default one
    first. It is on the branch that was pushed; for a tag on none.
    """
    url = None if mirror.git.remote.protocol == "file" else mirror.git.remote.url
    try:
        return _pack(mirror, Checkout(ref, commit, branches or {}, url), settings)
    except CommitRefused:
        raise
    except GitError:
        mirror.distrust()
        raise


def _pack(mirror: Mirror, checkout: Checkout, settings: SourceSettings) -> bytes:
    with tempfile.TemporaryDirectory(dir=mirror.folder, prefix="pack-") as temporary:
        files, history = Path(temporary, "files.tar"), Path(temporary, "mirror.git")
        limit = settings.max_mb * 2**20
        archive = ("archive", "--format=tar", "--end-of-options", checkout.commit)
        mirror.git.write(files, *archive, at=mirror.path, seconds=mirror.seconds, max_bytes=limit)
        make_history(mirror.git, mirror.path, history, checkout, settings.depth, mirror.seconds)
        buffer = io.BytesIO()
        with (
            gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            _add_files(tar, files)
            add_history(tar, history)
        if buffer.tell() > limit:
            raise TooLarge(f"the commit has more than {settings.max_mb} MB: raise source.max_mb")
        return buffer.getvalue()


def _add_files(tar: tarfile.TarFile, files: Path) -> None:
    with tarfile.open(files) as found:
        for member in found:
            if member.name.partition("/")[0].lower() == ".git" or not (
                member.isreg() or member.issym() or member.isdir()
            ):
                continue  # git refuses a commit with such a name, so this is the second lock
            info = tarfile.TarInfo(member.name)
            info.type, info.linkname, info.size = member.type, member.linkname, member.size
            info.mode = 0o755 if member.mode & 0o111 or member.isdir() else 0o644
            tar.addfile(info, found.extractfile(member) if member.isreg() else None)
