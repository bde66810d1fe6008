"""The disk keeper: it freezes and removes disks, as root of the VMs' ids.

``actors/vms/sandbox/disks.py`` asks it. It stays a moment for the next request, because a user namespace and
its ids take longer to make than most of the work. Both kinds of work can be repeated after a crash at any moment.
The VM of the disk has ended.
"""

from __future__ import annotations

import _socket
import marshal
import os
import select
import sys

from .answer import answer
from .ids import enter_mapping
from .kernel import close_all_but, set_title

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable

_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_REQUEST_BYTES, _REASON_BYTES = 4096, 2000
_DONE, _FAILED = b"0", b"1"
_TEMPORARY = ("work", "root", "netns", "outer", "command")
"""The parts of a disk that only a running VM needs."""


def run(folder: int, requests: int) -> int:
    """Serve requests in a folder until none comes any more; return an exit status.

    A request names the work and its disk; its answer is 0, or 1 and the reason why the work failed.
    """
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    os.fchdir(folder)
    close_all_but(requests)
    set_title(b"ci-daemon disks")
    service = _socket.socket(fileno=requests)
    try:
        enter_mapping(spec["uid_map"], spec["gid_map"])
    except OSError as error:
        service.recv(_REQUEST_BYTES)
        service.send(_failed(error))
        return 1
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    while poll.poll(spec["idle_seconds"] * 1000) and (request := service.recv(_REQUEST_BYTES)):
        answer(requests, _done(*marshal.loads(request)))  # noqa: S302 - from the service itself
    return 0


def _done(word: str, *names: str) -> bytes:
    """Do the work of a request; return its answer."""
    work: Callable[..., None] = {"freeze": _freeze, "remove": _remove}[word]
    try:
        work(*names)
    except OSError as error:
        return _failed(error)
    return _DONE


def _failed(error: OSError) -> bytes:
    return _FAILED + str(error).encode(errors="replace")[:_REASON_BYTES]


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
        _unless_gone(os.rename, kept, trash)  # by another process, which may not be at its end
    _remove_tree(trash)


def _remove_tree(path: str) -> None:
    """Remove a file or folder if it exists, together with others that remove it.

    ``rm`` removes one that is too deep for paths.
    """
    try:
        for folder, folders, files in os.walk(path, topdown=False):
            for name in files:
                _unless_gone(os.unlink, f"{folder}/{name}")
            for name in folders:
                below = f"{folder}/{name}"
                _unless_gone(os.unlink if os.path.islink(below) else os.rmdir, below)
        _unless_gone(os.rmdir if os.path.isdir(path) else os.unlink, path)
    except (OSError, RecursionError):
        pid = os.posix_spawnp("rm", ["rm", "-rf", "--", path], _PATH)
        if os.waitpid(pid, 0)[1]:
            raise


def _unless_gone(change: Callable[..., None], *paths: str) -> None:
    try:  # noqa: SIM105 - contextlib takes longer to import than most of this work
        change(*paths)
    except FileNotFoundError:
        pass
