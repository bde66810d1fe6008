"""The source of a commit: its files and a shallow ``.git``, as one archive."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from actors.repositories.git import CommitRefused, GitError, TooLarge

if TYPE_CHECKING:
    from actors.repositories.mirror import Mirror
    from actors.repositories.settings import RepositorySettings

__all__ = ["pack_commit"]

_HEADS = "refs/heads/"


def pack_commit(mirror: Mirror, ref: str, commit: str, settings: RepositorySettings) -> bytes:
    """Return the gzipped tar of a commit of the mirror, always the same. Raises GitError and TooLarge.

    Its ``.git`` has the last ``depth`` commits and their tags. It is on the branch that was pushed; for a tag on none.
    """
    try:
        return _pack(mirror, ref, commit, settings)
    except CommitRefused:
        raise
    except GitError:
        mirror.distrust()
        raise


def _pack(mirror: Mirror, ref: str, commit: str, settings: RepositorySettings) -> bytes:
    with tempfile.TemporaryDirectory(dir=mirror.folder, prefix="pack-") as temporary:
        files, history = Path(temporary, "files.tar"), Path(temporary, "mirror.git")
        limit = settings.max_source_mb * 2**20
        seconds = settings.fetch_timeout
        archive = ("archive", "--format=tar", "--end-of-options", commit)
        mirror.git.write(files, *archive, at=mirror.path, seconds=seconds, max_bytes=limit)
        _clone(mirror, history, ref, commit, settings)
        buffer = io.BytesIO()
        with (
            gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            _add_files(tar, files)
            _add_history(tar, history)
        if buffer.tell() > limit:
            raise TooLarge(f"the commit has more than {settings.max_source_mb} MB: raise repositories.max_source_mb")
        return buffer.getvalue()


def _clone(mirror: Mirror, history: Path, ref: str, commit: str, settings: RepositorySettings) -> None:
    """Make a shallow repository of a commit, with an index but without files."""

    def git(*arguments: str, at: Path = history) -> None:
        mirror.git.copy(*arguments, at=at, seconds=settings.fetch_timeout)

    branch = ref.removeprefix(_HEADS) if ref.startswith(_HEADS) else None
    target = f"refs/remotes/origin/{branch}" if branch else "refs/ci/commit"
    git("init", "--quiet", "--bare", "--template=", str(history), at=history.parent)
    depth = f"--depth={settings.depth}"
    options = ("fetch", "--quiet", depth, "--no-write-fetch-head", "--")
    git(*options, f"file://{mirror.path}", f"{commit}:{target}")
    if branch:
        git("update-ref", ref, commit)
        git("symbolic-ref", "HEAD", ref)
    else:
        git("update-ref", "--no-deref", "HEAD", commit)
    git("read-tree", commit)
    git("pack-refs", "--all")
    git("config", "core.bare", "false")


def _add_files(tar: tarfile.TarFile, files: Path) -> None:
    with tarfile.open(files) as found:
        for member in found:
            if member.name.partition("/")[0].lower() == ".git" or not (member.isreg() or member.issym()):
                continue  # git refuses a commit with such a name, so this is the second lock
            info = tarfile.TarInfo(member.name)
            info.type, info.linkname, info.size = member.type, member.linkname, member.size
            info.mode = 0o755 if member.mode & 0o111 else 0o644
            tar.addfile(info, found.extractfile(member) if member.isreg() else None)


def _add_history(tar: tarfile.TarFile, history: Path) -> None:
    for path in sorted(history.rglob("*")):
        info = tarfile.TarInfo(f".git/{path.relative_to(history).as_posix()}")
        if path.is_dir():
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        else:
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)
