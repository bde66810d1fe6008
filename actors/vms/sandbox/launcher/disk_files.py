"""Freeze and remove disks, as root of the VMs' ids (``actors/vms/sandbox/disks.py``).

Both can be repeated after a crash at any moment. The VM of the disk has ended.
"""

from __future__ import annotations

import marshal
import os
import sys

from .ids import as_root

_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_TEMPORARY = ("work", "root", "netns", "outer", "command")
"""The parts of a disk that only a running VM needs."""


def run(folder: int, answer: int) -> int:
    """Do the work of the arguments in a folder; write 0 to ``answer`` if it succeeds.

    Errors go to the standard one.
    """
    (word, *names), uid_map, gid_map = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    os.fchdir(folder)
    function = {"freeze": _freeze, "remove": _remove}[word]
    os.write(answer, bytes([as_root(uid_map, gid_map, lambda: function(*names)) != 0]))
    return 0


def _freeze(vm: str, snapshot: str) -> None:
    disk, kept = f"disks/{vm}", f"snapshots/{snapshot}"
    if os.path.lexists(disk):
        os.rename(disk, kept)
    for part in _TEMPORARY:
        _remove_tree(f"{kept}/{part}")
    if os.path.lexists(f"{kept}/flat"):
        _remove_tree(f"{kept}/upper")


def _remove(place: str, name: str) -> None:
    kept, trash = f"{place}/{name}", f"trash/{place}/{name}"
    if os.path.lexists(kept):
        _remove_tree(trash)
        try:
            os.rename(kept, trash)
        except FileNotFoundError:  # another process has moved it, and removes it
            return
    _remove_tree(trash)


def _remove_tree(path: str) -> None:
    """Remove a file or folder if it exists; ``rm`` removes one that is too deep for paths."""
    try:
        for folder, folders, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(f"{folder}/{name}")
            for name in folders:
                below = f"{folder}/{name}"
                (os.unlink if os.path.islink(below) else os.rmdir)(below)
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)
    except FileNotFoundError:
        pass
    except (OSError, RecursionError):
        pid = os.posix_spawnp("rm", ["rm", "-rf", "--", path], _PATH)
        if os.waitpid(pid, 0)[1]:
            raise
