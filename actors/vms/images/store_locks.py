"""Locks of an image store, which hold among all processes that share it."""

from __future__ import annotations

import fcntl
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_RENAMES = ".swap"
_POLL_SECONDS = 0.2


class StoreLocks:
    """Files in a folder, of which each is locked for one image. A process that dies gives up its locks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def image(self, name: str, check: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock of an image's folder name, without which no image is made or removed.

        ``check`` may abort the wait for it by raising.
        """
        with self._opened(name) as file:
            _wait_for(file, fcntl.LOCK_EX, check)
            yield

    @contextmanager
    def image_if_free(self, name: str) -> Iterator[None]:
        """Hold the same lock, without waiting for it. Raises BlockingIOError if it is held."""
        with self._opened(name) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    @contextmanager
    def renames(self, *, shared: bool = False) -> Iterator[None]:
        """Hold the lock on the folders of all images, for no longer than a rename takes."""
        with self._opened(_RENAMES) as file:
            _wait_for(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[str]]:
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(exist_ok=True)
        with (self._folder / name).open("w") as file:
            yield file


def _wait_for(file: IO[str], how: int, check: Callable[[], None] | None = None) -> None:
    """Lock a file as soon as it is free; ``check`` may abort the wait by raising."""
    if check is None:
        fcntl.flock(file, how)
        return
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            check()
            time.sleep(_POLL_SECONDS)
        else:
            return
