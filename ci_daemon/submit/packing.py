"""Pack a working tree as a reproducible source archive, without files that git ignores."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from actors import repositories
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pathspec import GitIgnoreSpec

__all__ = ["Archive", "PackError", "pack"]

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


@immutable
class _IgnoreRules:
    """The ``.gitignore`` files that apply in a folder, outermost first, each with its own folder."""

    files: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    def within(self, folder: Path) -> _IgnoreRules:
        path = folder / ".gitignore"
        if not path.is_file():
            return self
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - a tree without such files needs none of its modules

        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        return _IgnoreRules((*self.files, (folder, GitIgnoreSpec.from_lines(lines))))

    def ignore(self, path: Path, *, folder: bool) -> bool:
        """Tell whether a path is ignored: the innermost file with a rule for it decides."""
        for base, spec in reversed(self.files):
            verdict = spec.check_file(path.relative_to(base).as_posix() + ("/" if folder else "")).include
            if verdict is not None:
                return verdict
        return False


def pack(tree: Path, max_bytes: int = _MAX_BYTES, *, history: Path | None = None) -> Archive:
    """Pack the files and links below ``tree``, except ``.git`` and what ``.gitignore`` files exclude.

    The repository in the folder ``history``, if any, becomes the ``.git``.

    The ``.gitignore`` files of parent folders count too, up to the repository's top. Owners, times and modes are
    normalized, so that equal trees make equal archives: of the modes only the executable bit is kept. Files in a VM get
    the time of their unpacking. Sockets, pipes and devices are left out, as in git.

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
            for path in _files_below(top, _parent_rules(top)):
                files += _add(tar, path, top)
            if history is not None:
                repositories.add_history(tar, history)
    except OSError as error:
        raise PackError(f"{error.filename or tree} cannot be packed: {error.strerror or error}") from error
    return Archive(buffer.getvalue(), files)


def _parent_rules(top: Path) -> _IgnoreRules:
    """Return the rules of the parent folders, up to the top of the tree's repository."""
    if (top / ".git").exists():
        return _IgnoreRules()
    repository = next((folder for folder in top.parents if (folder / ".git").exists()), None)
    if repository is None:
        return _IgnoreRules()
    rules = _IgnoreRules()
    for folder in reversed([folder for folder in top.parents if folder.is_relative_to(repository)]):
        rules = rules.within(folder)
    return rules


def _files_below(folder: Path, above: _IgnoreRules) -> Iterator[Path]:
    rules = above.within(folder)
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        is_folder = entry.is_dir(follow_symlinks=False)
        path = folder / entry.name
        if entry.name == ".git" or rules.ignore(path, folder=is_folder):
            continue
        if is_folder:
            yield from _files_below(path, rules)
        else:
            yield path


def _add(tar: tarfile.TarFile, path: Path, top: Path) -> bool:
    """Add a file or a link; return False for anything else, which is left out."""
    info = tarfile.TarInfo(path.relative_to(top).as_posix())
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, str(path.readlink())
        _check_link(path.relative_to(top), info.linkname)
        tar.addfile(info)
        return True
    if not stat.S_ISREG(status.st_mode):
        return False
    with path.open("rb") as file:
        info.size = os.fstat(file.fileno()).st_size
        info.mode = 0o755 if status.st_mode & 0o111 else 0o644
        tar.addfile(info, file)
    return True


def _check_link(path: Path, target: str) -> None:
    depth = 0
    for part in (*path.parent.parts, *PurePosixPath(target).parts):
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise PackError(f"{path} is a link to {target}, outside the tree: remove it or name it in .gitignore")
