"""Pack a working tree as a reproducible source archive, with the files that git has or would add."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from actors import repositories
from ci_daemon.submit.working_tree import WorkingTree
from storage import immutable

if TYPE_CHECKING:
    from ci_daemon.submit.working_tree import TreeEntry

_MAX_BYTES = 2**30
"""The most bytes of an archive, far more than any service accepts; it is made in memory."""


class PackError(Exception):
    """The tree cannot be packed; the message names the file and says what to do."""


@immutable
class Archive:
    """A gzipped tar of ``files`` files and links."""

    data: bytes
    files: int

    @property
    def sha256(self) -> str:
        """The hash of the archive's bytes, in hex."""
        return hashlib.sha256(self.data).hexdigest()


def pack(tree: Path, max_bytes: int = _MAX_BYTES, *, history: Path | None = None) -> Archive:
    """Pack the files, links and empty folders of a `WorkingTree`.

    The repository in the folder ``history``, if any, becomes the ``.git``.

    Owners, times and modes are normalized, so that equal trees make equal archives: of the modes only the executable
    bit is kept. Files in a VM get the time of their unpacking. Sockets, pipes and devices are left out, as in git.

    Raises:
        PackError: a link leads out of the tree, a file cannot be read, or the archive is too large.
    """
    top = tree.resolve()
    advice = "exclude files that no step needs in .gitignore"
    too_large = PackError(f"more than {max_bytes >> 20} MiB would be packed: {advice}")
    buffer = repositories.LimitedBuffer(max_bytes, too_large)
    files = 0
    try:
        with (
            gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            for entry in WorkingTree(top).entries():
                files += _add(tar, entry, top)
            if history is not None:
                repositories.add_history(tar, history)
    except OSError as error:
        raise PackError(f"{error.filename or tree} cannot be packed: {error.strerror or error}") from error
    return Archive(buffer.getvalue(), files)


def _add(tar: tarfile.TarFile, entry: TreeEntry, top: Path) -> bool:
    """Add a file, a link or an empty folder, but nothing else; tell whether it was a file or link."""
    path = top / entry.path
    info = tarfile.TarInfo(entry.path)
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, str(path.readlink())
        _check_link(path.relative_to(top), info.linkname)
        tar.addfile(info)
        return True
    if stat.S_ISDIR(status.st_mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
        return False
    if not stat.S_ISREG(status.st_mode):
        return False
    with path.open("rb") as file:
        info.size = os.fstat(file.fileno()).st_size
        executable = status.st_mode & 0o111 if entry.executable is None else entry.executable
        info.mode = 0o755 if executable else 0o644
        tar.addfile(info, file)
    return True


def _check_link(path: Path, target: str) -> None:
    depth = 0
    for part in (*path.parent.parts, *PurePosixPath(target).parts):
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise PackError(f"{path} is a link to {target}, outside the tree: remove it or name it in .gitignore")
