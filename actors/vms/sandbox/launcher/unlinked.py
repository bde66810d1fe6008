"""Sum up the files without a name that processes of a VM hold open: they take room, and no walk over a disk finds them.

To look through a process takes what root of its user namespace may, so that is what this program becomes.
"""

from __future__ import annotations

import marshal
import os
import sys

from .ids import become_root
from .kernel import join

TYPE_CHECKING = False  # the module of this name takes longer to import than all the others together
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 512
_MOST_DESCRIPTORS = 1_000_000


def main() -> int:
    """Print the bytes on the disk that the spec's process sees at its place; return an exit status."""
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    supervisor = spec["process"]
    try:
        device = os.stat(f"/proc/{supervisor}/root{spec['place']}").st_dev
        join(f"/proc/{supervisor}/ns/user")
    except FileNotFoundError:  # it has ended
        return 1
    become_root()
    os.write(1, b"%d" % _bytes_on(device, supervisor))
    return 0


def _bytes_on(device: int, supervisor: int) -> int:
    held = {}
    for number, descriptor in enumerate(_descriptors(supervisor)):
        if number == _MOST_DESCRIPTORS:
            break
        try:
            found = os.stat(descriptor)
        except OSError:  # closed meanwhile
            continue
        if found.st_dev == device and not found.st_nlink:
            held[found.st_ino] = found.st_blocks * _BLOCK
    return sum(held.values())


def _descriptors(supervisor: int) -> Iterator[str]:
    for process in _descendants(supervisor):
        try:
            with os.scandir(f"/proc/{process}/fd") as descriptors:
                for each in descriptors:
                    yield each.path
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
