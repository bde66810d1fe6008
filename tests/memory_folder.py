"""Folders on a disk in memory, where a sync takes no time."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

_MEMORY, _DISK = Path("/dev/shm"), Path("/var/tmp")
_PREFIX = "ci-daemon-tests-"
_NEEDED_BYTES = 1 << 30
"""More than the tests of all workers keep at once."""


class _Folder(TemporaryDirectory[str]):
    """A folder that is locked until it is removed, or its process ends, in whatever namespace that runs."""

    def __init__(self, place: Path) -> None:
        super().__init__(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True)
        self._lock = os.open(self.name, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def cleanup(self) -> None:
        super().cleanup()
        with suppress(OSError):  # it was removed before
            os.close(self._lock)
        self._lock = -1


def memory_folder() -> TemporaryDirectory[str]:
    """Return a new folder in memory, and remove those of processes that were killed.

    It is on the real disk where a container's memory has no room or runs no programs.
    """
    place = _MEMORY if _usable() else _DISK
    with _open(place) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # nobody meets a folder that is not locked yet
        for folder in place.glob(f"{_PREFIX}*"):
            if not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)
        return _Folder(place)


def _is_used(folder: Path) -> bool:
    try:
        with _open(folder) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is locked, another user's, or gone
        return True
    return False


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _usable() -> bool:
    try:
        disk = os.statvfs(_MEMORY)
    except FileNotFoundError:
        return False
    runs = not disk.f_flag & os.ST_NOEXEC
    return runs and disk.f_bavail * disk.f_frsize > _NEEDED_BYTES and os.access(_MEMORY, os.W_OK)
