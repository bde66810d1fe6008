"""Making the tree of an image in its staging folder: from a release, a tar, or a registry."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from actors.vms.images.image import TREE, ImageError
from actors.vms.images.provisioning import provisioned
from actors.vms.images.pull_bounds import ImageTooLarge, InsufficientDisk, PullBounds, PullOptions
from actors.vms.images.registry import download
from actors.vms.images.scratch import scratch
from actors.vms.images.tree import Tree, missing_programs
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from actors.vms.images.debian import Recipe
    from actors.vms.images.reference import Reference
    from actors.vms.sandbox.settings import SandboxSettings
    from actors.vms.sandbox.userns import IdMap

__all__ = ["bootstrap", "check_programs", "pull", "unpack"]

_PULLED = "bare"


def bootstrap(recipe: Recipe, staging: Path, idmap: IdMap, progress: Callable[[str], None]) -> None:
    """Make the tree of a Debian or Ubuntu release with mmdebstrap. Raises VmError."""
    with scratch(staging, idmap) as folder, recipe.tar(folder, progress) as tar:
        unpack(tar, staging, idmap)


def unpack(tar: IO[bytes], staging: Path, idmap: IdMap) -> None:
    """Make the tree of a root file system's tar. Raises VmError."""
    tree = Tree(staging / TREE, idmap)
    tree.make()
    tree.unpack(tar)


def pull(
    reference: Reference, name: str, staging: Path, idmap: IdMap, sandbox: SandboxSettings, options: PullOptions
) -> Mapping[str, str]:
    """Make the tree of an image in a registry, with all programs that a VM needs.

    Returns its environment variables. Raises VmError, whose message says what to do, and what the check of the options
    raises.
    """
    bounds = PullBounds(staging, idmap, options)
    try:
        downloaded = download(reference, staging, bounds)
        options.progress(f"unpacking {reference.short}")
        tree = Tree(staging / _PULLED, idmap)
        tree.make()
        downloaded.unpack(tree, bounds)
        _complete(name, tree, staging, sandbox, bounds)
    except ImageTooLarge as error:
        message = f"{reference.short} is larger than allowed: {error}"
        raise ImageError(message) from error
    return downloaded.environment


def check_programs(name: str, root: Path) -> None:
    """Raise ImageError if a tree lacks a program that a VM needs."""
    missing = missing_programs(root)
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        message = (
            f'"{name}" lacks {", ".join(missing)}, so no VM can start from it: install them in it '
            f"(in Debian: `apt-get install {packages}`) and import it again"
        )
        raise ImageError(message)


def _complete(name: str, pulled: Tree, staging: Path, sandbox: SandboxSettings, bounds: PullBounds) -> None:
    """Turn the pulled tree into one with all programs that a VM needs."""
    missing = missing_programs(pulled.path)
    if not missing:
        pulled.path.rename(staging / TREE)
        return
    packages = sorted(set(missing.values()))
    if "sh" in missing:
        message = f'"{name}" has no shell, so no VM can start from it: pull an image that is based on a distribution'
        raise ImageError(message)
    bounds.options.progress(f"installing the packages that a VM needs and it lacks: {' '.join(packages)}")
    try:
        with provisioned(pulled, packages, staging, sandbox, bounds) as tar:
            unpack(tar, staging, pulled.idmap)
    except (ImageTooLarge, InsufficientDisk):
        raise
    except VmError as error:
        message = (
            f'"{name}" lacks {", ".join(missing)}, which a VM needs and which cannot be installed in it: '
            f"{error}; install them yourself, then see `ci-daemon image import`"
        )
        raise ImageError(message) from error
    pulled.remove()
