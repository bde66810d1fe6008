"""Staging folders of an image store: images are made and removed there, so readers see whole images."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from actors.vms.images.image import TREE, ImageError
from actors.vms.images.names import folder_of
from actors.vms.images.scratch import sweep_scratch
from actors.vms.images.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.images.store_locks import StoreLocks

_PREFIX = ".making-"


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
        sweep_scratch(folder, self._idmap)
        Tree(folder, self._idmap).remove()

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
