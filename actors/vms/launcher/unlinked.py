"""Sum up the unlinked files that a VM's processes hold, whose space no walk of the disk finds.

Inspecting a process takes root of its user namespace, so this program becomes that, unless it is root of the host. Only
root of the host may read the size of a file that is only mapped; others see how much of it is mapped. Files in flight
over a socket can only be counted.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from functools import partial

from .ids import become_root
from .kernel import join

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_BLOCK = 512
_MAX_CHECKS = 1_000_000
_DELETED = b" (deleted)\n"


def run() -> int:
    """Print the bytes of the files on the spec's disk, and the number of files that may take more.

    The disk is the one that the spec's process sees at the spec's place. Returns an exit status.
    """
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    monitor = spec["process"]
    disk = f"/proc/{monitor}/root{spec['place']}"
    try:
        files = _UnlinkedFiles(os.statvfs(disk).f_fsid, {os.stat(disk).st_dev, os.stat(f"{disk}/..").st_dev})
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


class _UnlinkedFiles:
    """The files found so far, by device and inode.

    A file's device does not identify its disk: an overlay over several file systems gives each another device.
    ``devices`` are those of mappings: the overlay's, and on old kernels that of the file below it.
    """

    def __init__(self, file_system: int, devices: set[int]) -> None:
        self._file_system = file_system
        self._devices = devices
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
        elif not found.st_nlink and os.statvfs(path).f_fsid == self._file_system:
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
