"""Locks of an image store, which hold among all processes that share it, and its staging folders."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from actors.vms.images import factory
from actors.vms.images.image import TREE, ImageError, folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.vms.host.ids import IdMap

_RENAMES = ".swap"
_PREFIX = ".making-"
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


class Staging:
    """The staging folders of a store, one for each image that is being made or removed.

    The caller holds the lock of the image.
    """

    def __init__(self, store: Path, idmap: IdMap, locks: StoreLocks) -> None:
        self._store = store
        self._idmap = idmap
        self._locks = locks

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """Yield a new folder in which to make an image; it is removed at the end unless it was renamed."""
        folder = self._folder(name)
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask: programs with the VMs' ids work in it
        try:
            yield folder
        finally:
            if folder.exists():
                self.remove(folder)

    def take(self, name: str) -> Path:
        """Move an image out of the store, to be removed. Raises ImageError if VMs run with its sshd."""
        self._check_not_base(name)
        folder = self._folder(name)
        (self._store / folder_of(name)).rename(folder)
        return folder

    def take_former(self, name: str) -> Path | None:
        """Move the image that a new one of its name replaces out of the store; None if there is none.

        Raises ImageError if VMs run with its sshd.
        """
        image = self._store / folder_of(name)
        if not image.exists():
            return None
        self._check_not_base(name)
        folder = self._store / f"{_PREFIX}{folder_of(name)}~former"
        image.rename(folder)
        return folder

    def remove(self, folder: Path) -> None:
        """Remove a staging folder with its scratch folder."""
        factory.sweep_scratch(folder, self._idmap)
        factory.Tree(folder, self._idmap).remove()

    def sweep_image(self, name: str) -> None:
        """Remove what a dead process left of an image that it was making or removing."""
        folder = self._folder(name)
        if folder.exists():
            self.remove(folder)

    def sweep(self) -> None:
        """Remove what dead processes left of any image."""
        for folder in self._store.glob(f"{_PREFIX}*"):
            with suppress(BlockingIOError), self._locks.image_if_free(folder.name.removeprefix(_PREFIX)):
                self.remove(folder)

    def _check_not_base(self, name: str) -> None:
        """Each VM locks the tree of its sshd (`launcher/vm.py`)."""
        tree = os.open(self._store / folder_of(name) / TREE, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(tree, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f'image "{name}" is in use: its sshd serves VMs'
            raise ImageError(message) from None
        finally:
            os.close(tree)

    def _folder(self, name: str) -> Path:
        return self._store / f"{_PREFIX}{folder_of(name)}"
