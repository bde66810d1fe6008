"""Sum up the files without a name that processes of a VM hold: they take room, and no walk over a disk finds them.

To look through a process takes what root of its user namespace may, so that is what this program becomes, unless it is
root of the host. Root alone may ask for the size of a file that is only mapped; others see how much of it is mapped.
Of files on their way over a socket there is only a number.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from functools import partial

from .ids import become_root
from .kernel import join

TYPE_CHECKING = False  # the module of this name takes longer to import than all the others together
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BLOCK = 512
_MOST_LOOKS = 1_000_000
_GONE = b" (deleted)\n"


def main() -> int:
    """Print the bytes on the disk that the spec's process sees at its place, and how many files take more.

    Return an exit status.
    """
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    supervisor = spec["process"]
    disk = f"/proc/{supervisor}/root{spec['place']}"
    try:
        held = _Held(os.statvfs(disk).f_fsid, {os.stat(disk).st_dev, os.stat(f"{disk}/..").st_dev})
        if os.geteuid() != 0:
            join(f"/proc/{supervisor}/ns/user")
            become_root()
    except FileNotFoundError:  # it has ended
        return 1
    for looks, look in enumerate(_looks(held, supervisor)):
        if looks == _MOST_LOOKS:
            held.in_flight += 1
            break
        try:
            look()
        except OSError:  # closed or ended meanwhile
            continue
    os.write(1, b"%d %d" % held.sums())
    return 0


class _Held:
    """The files found so far, by device and inode.

    A file's own device does not tell where it is: an overlay over several file systems gives each another one.
    ``devices`` are those of mappings: the overlay's, and on old kernels that of the file below it.
    """

    def __init__(self, file_system: int, devices: set[int]) -> None:
        self._file_system = file_system
        self._devices = devices
        self._measured: dict[tuple[int, int], int] = {}
        self._mapped: dict[tuple[int, int], int] = {}
        self.in_flight = 0

    def sums(self) -> tuple[int, int]:
        """Return the bytes of all files, and the number of those that may take more."""
        partly = {file: size for file, size in self._mapped.items() if file not in self._measured}
        return sum(self._measured.values()) + sum(partly.values()), len(partly) + self.in_flight

    def see(self, path: str) -> None:
        """Take a file into account that a process has open or mapped. Raises OSError."""
        found = os.stat(path)
        if stat.S_ISSOCK(found.st_mode):
            self.in_flight += _in_flight(path)
        elif not found.st_nlink and os.statvfs(path).f_fsid == self._file_system:
            self._measured[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK

    def see_mapped(self, process: int, line: bytes) -> None:
        """Take a line of a process's ``maps`` into account. Raises OSError."""
        span, _, offset, device, inode = line.split(None, 5)[:5]
        start, end = (int(each, 16) for each in span.split(b"-"))
        file = os.makedev(*(int(each, 16) for each in device.split(b":"))), int(inode)
        try:
            self.see(f"/proc/{process}/map_files/{start:x}-{end:x}")
        except PermissionError:
            if file[0] in self._devices:
                self._mapped[file] = max(self._mapped.get(file, 0), int(offset, 16) + end - start)


def _in_flight(descriptor: str) -> int:
    """Return how many descriptors wait in a socket to be received."""
    with open(descriptor.replace("/fd/", "/fdinfo/"), "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"scm_fds:")), 0)


def _looks(held: _Held, supervisor: int) -> Iterator[Callable[[], None]]:
    """Yield a look at each descriptor of each thread, and at each mapping of a file that has no name any more."""
    for process in _descendants(supervisor):
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                with os.scandir(f"/proc/{process}/task/{thread}/fd") as descriptors:
                    yield from (partial(held.see, each.path) for each in descriptors)
            with open(f"/proc/{process}/maps", "rb") as maps:
                yield from (partial(held.see_mapped, process, line) for line in maps if line.endswith(_GONE))
        except OSError:  # it has ended
            continue


def _descendants(process: int) -> Iterator[int]:
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
