"""Merge the layers of a snapshot into one with the same meaning, by links: only folders are copied.

A layer changes the one below it: an entry replaces the entry of the same name, but a folder is merged with a folder,
unless it is opaque, and a whiteout (a device 0/0) removes the entry. The sum still lies on the image, so whiteouts stay
in it.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import shutil
import stat
import sys

from .ids import as_root

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any

_OPAQUE = "user.overlay.opaque"


def main() -> int:
    """Merge the spec's layers (newest first) into the snapshot's ``flat``; return an exit status."""
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    return as_root(spec["uid_map"], spec["gid_map"], lambda: _flatten(spec))


def _flatten(spec: dict[str, Any]) -> None:
    """Make the sum, unless it exists: an earlier process may have outlived the service that started it."""
    os.umask(0)
    snapshot = spec["snapshot"]
    fcntl.flock(os.open(snapshot, os.O_RDONLY), fcntl.LOCK_EX)
    if os.path.isdir(f"{snapshot}/flat"):
        return
    unfinished = f"{snapshot}/flat.unfinished"
    _remove_tree(unfinished)
    os.mkdir(unfinished)
    for layer in reversed(spec["layers"]):
        _add(layer, unfinished)
    os.rename(unfinished, f"{snapshot}/flat")
    _remove_tree(f"{snapshot}/upper")


def _add(layer: str, total: str) -> None:
    """Merge a layer into the sum of those below it."""
    folders = [(layer, total)]
    for source, target in folders:
        for entry in os.scandir(source):
            below = f"{target}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                _add_folder(entry.path, below)
                folders.append((entry.path, below))
            else:
                _remove(below)
                _link(entry.path, below)
    for source, target in reversed(folders):
        found = os.lstat(source)
        os.chown(target, found.st_uid, found.st_gid)
        for gone in {*os.listxattr(target)} - {*os.listxattr(source), _OPAQUE}:
            os.removexattr(target, gone)
        shutil.copystat(source, target)


def _add_folder(source: str, target: str) -> None:
    if os.path.isdir(target) and not os.path.islink(target) and not _is_opaque(source):
        return
    _remove(target)
    os.mkdir(target)


def _is_opaque(folder: str) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        _remove_tree(path)


def _remove_tree(path: str) -> None:
    """Remove a folder of any depth, if it exists. Raises OSError."""
    running = os.posix_spawnp("rm", ["rm", "-rf", "--", path], os.environ)
    if os.waitpid(running, 0)[1] != 0:
        message = f"{path} cannot be removed"
        raise OSError(message)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        found = os.lstat(source)
        if stat.S_ISCHR(found.st_mode):
            os.mknod(target, found.st_mode, found.st_rdev)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
            os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
