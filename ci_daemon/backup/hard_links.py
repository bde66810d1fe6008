"""Hard links that keep files of a state directory until a backup has read them."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.manifest import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_ERRORS = {errno.ELOOP, errno.ENOTDIR}


class HardLinks:
    """Hard links in one folder to files of a state directory.

    Root may back up another user's directory. So symbolic links are refused, except in place of a top folder and owned
    by root or the caller. Files on another file system are not linked, and may be removed before they are read.
    """

    def __init__(self, directory: Path, folder: Path) -> None:
        """Link files of ``directory`` into a new ``folder``."""
        folder.mkdir(mode=0o700)
        self._directory = directory
        self._folder = folder
        self._links: dict[str, Path] = {}

    def add(self, path: str) -> bool:
        """Link a file by its path below the state directory; False if it does not exist. Raises BackupError."""
        if path in self._links:
            return True
        link = self._folder / str(len(self._links))
        try:
            with self._parent_of(path) as parent:
                name = PurePosixPath(path).name
                try:
                    os.link(name, link, src_dir_fd=parent, follow_symlinks=False)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    return stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False
        self._links[path] = link
        return True

    @contextmanager
    def open(self, path: str) -> Iterator[IO[bytes]]:
        """Open a file for reading. Raises FileNotFoundError, and BackupError if it is not a regular file."""
        link = self._links.get(path)
        try:
            if link is not None:
                descriptor = os.open(link, _OPEN_FILE)
            else:
                with self._parent_of(path) as parent:
                    descriptor = os.open(PurePosixPath(path).name, _OPEN_FILE, dir_fd=parent)
        except OSError as error:
            raise self._as_backup_error(path, error) from error
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BackupError(f"{self._directory / path} is not a regular file: remove it")
            yield file

    @contextmanager
    def _parent_of(self, path: str) -> Iterator[int]:
        """Yield a descriptor of a file's folder, opened one component at a time."""
        top, *below = PurePosixPath(path).parent.parts
        folder = self._directory / top
        status = folder.lstat()
        trusted = status.st_uid in {0, os.geteuid()}
        try:
            descriptor = os.open(folder, _OPEN_FOLDER | (0 if trusted else os.O_NOFOLLOW))
            try:
                for part in below:
                    inner = os.open(part, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
                    os.close(descriptor)
                    descriptor = inner
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._as_backup_error(path, error) from error

    def _as_backup_error(self, path: str, error: OSError) -> Exception:
        if error.errno in _LINK_ERRORS:
            file = self._directory / path
            return BackupError(f"a symbolic link or a file is in place of a folder of {file}: remove it")
        return error
