"""Making and removing images in staging folders, so that readers see whole images.

The tree of an image is made from a release, a tar, or a registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.images.image import TREE, ImageError, ImageTooLarge
from actors.vms.images.registry import PullBounds, PullOptions, download
from actors.vms.images.tree import Tree, has_shell, scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.images.debian import Recipe
    from actors.vms.images.image import Reference
    from actors.vms.images.registry import DownloadedImage
    from actors.vms.images.tree import Readable

_BYTES = 500 << 20
"""The most that a release takes while it is made, with its packages.

In memory, no write of dpkg waits for a disk.
"""


def bootstrap(recipe: Recipe, staging: Path, idmap: IdMap, progress: Callable[[str], None]) -> None:
    """Make the tree of a Debian or Ubuntu release with mmdebstrap. Raises VmError."""
    with scratch(staging, idmap, memory=_BYTES) as folder, recipe.tar(folder, progress) as tar:
        unpack(tar, staging, idmap)


def unpack(tar: Readable, staging: Path, idmap: IdMap, below: str = "") -> None:
    """Make the tree of a root file system's tar, or of the folder ``below`` in a tar. Raises VmError."""
    tree = Tree(staging / TREE, idmap)
    tree.make()
    tree.unpack(tar, below)


def pull(reference: Reference, staging: Path, idmap: IdMap, options: PullOptions) -> DownloadedImage:
    """Make the tree of an image in a registry.

    Returns it with its configuration. Raises VmError, whose message says what to do, and the errors of the options'
    check.
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
    return downloaded


def check_shell(name: str, root: Path) -> None:
    """Raise ImageError if a tree has no shell, all that a job needs of its image."""
    if not has_shell(root):
        message = f'"{name}" has no /bin/sh, so no command can run in it: take an image that is based on a distribution'
        raise ImageError(message)
