"""Work on the files of VMs, as root of their ids: the disk keeper, a measurement, and programs.

The keeper freezes and removes disks. ``actors/vms/sandbox/disks.py`` asks it. It stays a moment for the next request,
because a user namespace and its ids take longer to make than most of the work. Both kinds of work can be repeated after
a crash at any moment. The VM of the disk has ended.

The measurement sums up the unlinked files that a VM's processes hold, whose space no walk of the disk finds. Inspecting
a process takes root of its user namespace, so this program becomes that, unless it is root of the host. Only root of
the host may read the size of a file that is only mapped; others see how much of it is mapped. Files in flight over a
socket can only be counted.
"""

from __future__ import annotations

import _socket
import marshal
import os
import select
import stat
import sys
import warnings  # noqa: F401 - os.execvp imports it, when the new ids may no longer read its file
from functools import partial

from .ids import as_root, become_root, enter_mapping
from .kernel import answer, close_all_but, join, restore_signals, set_title

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import NoReturn


_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_REQUEST_BYTES, _REASON_BYTES = 4096, 2000
_DONE, _FAILED = b"0", b"1"
_TEMPORARY = ("work", "root", "netns", "outer", "command", "services")
"""The parts of a disk that only a running VM needs."""


def keep(folder: int, requests: int) -> int:
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


_BLOCK = 512
_MAX_CHECKS = 1_000_000
_DELETED = b" (deleted)\n"


def measure_unlinked() -> int:
    """Print the bytes of the files on the spec's disk, and the number of files that may take more.

    The disk is the one that the spec's process sees at the spec's place, with those of services beside it. Returns an
    exit status.
    """
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    monitor = spec["process"]
    disk = f"/proc/{monitor}/root{spec['place']}"
    try:
        files = _UnlinkedFiles([disk, *_disks_of_services(f"{disk}/../services")], f"{disk}/..")
        if os.geteuid() != 0:
            join(f"/proc/{monitor}/ns/user")
            become_root()
    except FileNotFoundError:  # it has ended
        return 1
    for count, check in enumerate(_checks_of(files, _processes_of(spec["groups"]) or _descendants(monitor))):
        if count == _MAX_CHECKS:
            files.in_flight += 1
            break
        try:
            check()
        except OSError:  # closed or ended meanwhile
            continue
    os.write(1, b"%d %d" % files.sums())
    return 0


def _disks_of_services(folder: str) -> list[str]:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [f"{folder}/{name}/root" for name in names]


class _UnlinkedFiles:
    """The files found so far, by device and inode.

    A file's device does not identify its disk: an overlay over several file systems gives each another device.
    The devices of mappings are the overlays', and on old kernels that of the file below them.
    """

    def __init__(self, disks: list[str], below: str) -> None:
        """Look for files of the overlays ``disks``, whose layers are in the folder ``below``. Raises OSError."""
        self._file_systems = {os.statvfs(disk).f_fsid for disk in disks}
        self._devices = {os.stat(place).st_dev for place in (*disks, below)}
        self._measured: dict[tuple[int, int], int] = {}
        self._mapped: dict[tuple[int, int], int] = {}
        self.in_flight = 0

    def sums(self) -> tuple[int, int]:
        """Return the bytes of all files, and the number of files that may take more."""
        partly = {file: size for file, size in self._mapped.items() if file not in self._measured}
        return sum(self._measured.values()) + sum(partly.values()), len(partly) + self.in_flight

    def see(self, path: str) -> None:
        """Count a file that a process has open or mapped. Raises OSError."""
        found = os.stat(path)
        if stat.S_ISSOCK(found.st_mode):
            self.in_flight += _in_flight(path)
        elif not found.st_nlink and os.statvfs(path).f_fsid in self._file_systems:
            self._measured[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK

    def see_mapped(self, process: int, line: bytes) -> None:
        """Count the file of one line of a process's ``maps``. Raises OSError."""
        span, _, offset, device, inode = line.split(None, 5)[:5]
        start, end = (int(each, 16) for each in span.split(b"-"))
        file = os.makedev(*(int(each, 16) for each in device.split(b":"))), int(inode)
        try:
            self.see(f"/proc/{process}/map_files/{start:x}-{end:x}")
        except PermissionError:
            if file[0] in self._devices:
                self._mapped[file] = max(self._mapped.get(file, 0), int(offset, 16) + end - start)


def _in_flight(descriptor: str) -> int:
    """Return the number of descriptors that wait in a socket to be received."""
    with open(descriptor.replace("/fd/", "/fdinfo/"), "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"scm_fds:")), 0)


def _checks_of(files: _UnlinkedFiles, processes: Iterable[int]) -> Iterator[Callable[[], None]]:
    """Yield a check of each descriptor of each thread, and of each mapping of an unlinked file."""
    for process in processes:
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                with os.scandir(f"/proc/{process}/task/{thread}/fd") as descriptors:
                    yield from (partial(files.see, each.path) for each in descriptors)
            with open(f"/proc/{process}/maps", "rb") as maps:
                yield from (partial(files.see_mapped, process, line) for line in maps if line.endswith(_DELETED))
        except OSError:  # it has ended
            continue


def _processes_of(groups: list[str]) -> set[int]:
    """Return the processes of control groups; those that no longer exist have none."""
    processes: set[int] = set()
    for group in groups:
        try:
            with open(f"{group}/cgroup.procs", "rb") as file:
                processes.update(map(int, file))
        except OSError:
            continue
    return processes


def _descendants(process: int) -> Iterator[int]:
    """Return the descendants of a process, by a look at every process of the host."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:  # it has ended
                continue
            children.setdefault(parent, []).append(int(name))
    pending = [process]
    while pending:
        each = pending.pop()
        yield each
        pending += children.get(each, [])


_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/",
    "LC_ALL": "C.UTF-8",
}


_FIRST_FILE = 3


def run_mapped(answer: int, *files: int) -> int:
    """Run a program in a folder; write its exit status to ``answer``, one byte; return an exit status.

    It gets the files from descriptor 3 on. The folder is entered by its name: a descriptor from the service, which may
    be in another mount namespace, would be of a mount there, that none can be made from.
    """
    argv, uid_map, gid_map, folder = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    os.chdir(folder)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)

    def become() -> NoReturn:
        for number, file in enumerate(files, _FIRST_FILE):  # in their order, so that none is replaced before its turn
            os.dup2(file, number)
        restore_signals()
        os.execvpe(argv[0], argv, _ENVIRONMENT)  # noqa: S606 - the very point

    status = as_root(uid_map, gid_map, become)
    os.write(answer, bytes([status if status >= 0 else 128 - status]))
    return 0
