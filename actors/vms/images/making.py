"""Making and removing images in staging folders, so that readers see whole images.

The tree of an image is made from a release, a tar, or a registry.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from actors.vms.images.image import TREE, ImageError, folder_of
from actors.vms.images.registry import ImageTooLarge, PullBounds, PullOptions, download
from actors.vms.images.tree import Tree, has_shell, scratch, sweep_scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.images.debian import Recipe
    from actors.vms.images.image import Reference
    from actors.vms.images.store_locks import StoreLocks

_BYTES = 500 << 20
"""The most that a release takes while it is made, with its packages.

In memory, no write of dpkg waits for a disk.
"""


def bootstrap(recipe: Recipe, staging: Path, idmap: IdMap, progress: Callable[[str], None]) -> None:
    """Make the tree of a Debian or Ubuntu release with mmdebstrap. Raises VmError."""
    with scratch(staging, idmap, memory=_BYTES) as folder, recipe.tar(folder, progress) as tar:
        unpack(tar, staging, idmap)


def unpack(tar: IO[bytes], staging: Path, idmap: IdMap, below: str = "") -> None:
    """Make the tree of a root file system's tar, or of the folder ``below`` in a tar. Raises VmError."""
    tree = Tree(staging / TREE, idmap)
    tree.make()
    tree.unpack(tar, below)


def pull(reference: Reference, staging: Path, idmap: IdMap, options: PullOptions) -> Mapping[str, str]:
    """Make the tree of an image in a registry.

    Returns its environment variables. Raises VmError, whose message says what to do, and what the check of the options
    raises.
    """
    bounds = PullBounds(staging, idmap, options)
    try:
        downloaded = download(reference, staging, bounds)
        options.progress(f"unpacking {reference.short}")
        tree = Tree(staging / TREE, idmap)
        tree.make()
        downloaded.unpack(tree, bounds)
    except ImageTooLarge as error:
        message = f"{reference.short} is larger than allowed: {error}"
        raise ImageError(message) from error
    return downloaded.environment


def check_shell(name: str, root: Path) -> None:
    """Raise ImageError if a tree has no shell, all that a job needs of its image."""
    if not has_shell(root):
        message = f'"{name}" has no /bin/sh, so no command can run in it: take an image that is based on a distribution'
        raise ImageError(message)


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
