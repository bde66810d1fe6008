"""The CPU time of processes that end, as the kernel tells it, and whose descendants they were.

The kernel reports each fork (its process connector) and each end with the times of the process (taskstats). Both take
root. Processes of VMs are reported, too, and those of no interest are left out by their ancestors.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended at an instant of `monotonic`: its CPU time in seconds, and its page faults."""

    pid: int
    name: str
    seconds: float
    faults: int
    at: float


@dataclass(slots=True)
class Recording:
    """The forks and ends of processes of the host. It is filled at its end."""

    parents: dict[int, int]
    ended: list[Ended]
    own_seconds: Callable[[], float] = lambda: 0.0
    """Return the CPU time of this process that the recording took so far."""

    def descendants(self, ancestor: int) -> list[Ended]:
        """Return the descendants of a process that have ended."""
        return [each for each in self.ended if ancestor in self._ancestors(each.pid)]

    def zygote(self, ancestor: int) -> Ended:
        """Return the descendant of a process with the most children."""
        children = Counter(self.parents.get(each.pid) for each in self.ended)
        return max(self.descendants(ancestor), key=lambda each: children[each.pid])

    def labels(self, ancestor: int) -> dict[int, str]:
        """Name the descendants of a process, each after its parent and the one before.

        A fork has its parent's name until it takes another one, so that the name alone does not tell it.
        """
        names = {each.pid: each.name for each in self.ended}
        names[self.zygote(ancestor).pid] = "zygote"
        labels = {}
        for each in self.descendants(ancestor):
            line = [each.name]
            for pid in self._ancestors(each.pid):
                if pid == ancestor:
                    break
                line.append(names.get(pid, "?"))
            labels[each.pid] = _OF_ONE_VM.sub(r"\1", " > ".join(reversed(line[:_GENERATIONS])))
        return labels

    def _ancestors(self, pid: int) -> Iterator[int]:
        while (pid := self.parents.get(pid, 0)) != 0:
            yield pid


_GENERATIONS = 3
_OF_ONE_VM = re.compile(r"(ci-daemon VM) \w+")

_CONNECTOR, _GENERIC = 11, 16
_PROCESSES = struct.Struct("=II")  # the connector's address: CN_IDX_PROC, CN_VAL_PROC
_LISTEN, _IGNORE = 1, 2
_FORK = 1
_HEADER = struct.Struct("=IHHII")
_CONNECTOR_HEADER = struct.Struct("=IIIIHH")
_EVENT = struct.Struct("=IIQ")
_FORKED = struct.Struct("=IIII")
_DONE, _REQUEST = 3, 1
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_TASKSTATS_GET, _REGISTER_CPUS, _DEREGISTER_CPUS = 1, 3, 4
_AGGREGATE_OF_PROCESS, _STATS = 4, 3
_ATTRIBUTE = struct.Struct("=HH")
_RUN_NANOSECONDS, _NAME, _IDS, _FAULTS = 72, 80, 128, 168
_NAME_BYTES = 32
_MESSAGE_BYTES, _BUFFER_BYTES = 1 << 16, 1 << 26
_LOOK_SECONDS = 0.1
_CLOCK_OF_THREAD = 6
_SO_RCVBUFFORCE = 33  # `socket` lacks it


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record while the block runs. Raises OSError unless run by root."""
    recording = Recording(_living_parents(), [])
    over = threading.Event()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _CONNECTOR) as connector, _taskstats() as taskstats:
        connector.bind((0, 1))
        _tell_connector(connector, _LISTEN)
        forks, ends = (_Reader(each, over) for each in (connector, taskstats))
        recording.own_seconds = lambda: forks.seconds + ends.seconds
        try:
            yield recording
        finally:
            over.set()
            for reader in (forks, ends):
                reader.join()
            _tell_connector(connector, _IGNORE)
    for _, message in forks.messages:
        _note_fork(recording, message)
    for at, message in ends.messages:
        recording.ended.extend(_ends(message, at))


class _Reader(threading.Thread):
    """A thread that keeps all messages of a socket, until it is over and none comes any more."""

    def __init__(self, source: socket.socket, over: threading.Event) -> None:
        super().__init__(daemon=True)
        source.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        source.settimeout(_LOOK_SECONDS)
        self._source = source
        self._over = over
        self.messages: list[tuple[float, bytes]] = []
        self.start()

    @property
    def seconds(self) -> float:
        """Its CPU time so far."""
        return time.clock_gettime(~(self.native_id or 0) << 3 | _CLOCK_OF_THREAD)

    def run(self) -> None:
        """Read."""
        while True:
            try:
                message = self._source.recv(_MESSAGE_BYTES)
                self.messages.append((time.monotonic(), message))
            except TimeoutError:
                if self._over.is_set():
                    break


def _living_parents() -> dict[int, int]:
    """Return the parent of each process that lives."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parents[int(folder.name)] = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
    return parents


def _tell_connector(connector: socket.socket, word: int) -> None:
    body = struct.pack("=I", word)
    message = _CONNECTOR_HEADER.pack(*_PROCESSES.unpack(_PROCESSES.pack(1, 1)), 0, 0, len(body), 0) + body
    connector.send(_HEADER.pack(_HEADER.size + len(message), _DONE, 0, 0, os.getpid()) + message)


def _note_fork(recording: Recording, message: bytes) -> None:
    at = _HEADER.size + _CONNECTOR_HEADER.size
    what, _, _ = _EVENT.unpack_from(message, at)
    if what == _FORK:
        _, parent, _, child = _FORKED.unpack_from(message, at + _EVENT.size)
        if child != parent:  # a process, not a thread
            recording.parents[child] = parent


@contextmanager
def _taskstats() -> Iterator[socket.socket]:
    """Yield a socket to which the kernel writes the times of each task that ends."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as opened:
        opened.bind((0, 0))
        _ask(opened, _CONTROL, _GET_FAMILY, _attribute(_FAMILY_NAME, b"TASKSTATS\0"))
        family = struct.unpack("=H", dict(_attributes(opened.recv(_MESSAGE_BYTES)[20:]))[_FAMILY_ID])[0]
        cpus = f"0-{(os.cpu_count() or 1) - 1}\0".encode()
        _ask(opened, family, _TASKSTATS_GET, _attribute(_REGISTER_CPUS, cpus))
        yield opened
        _ask(opened, family, _TASKSTATS_GET, _attribute(_DEREGISTER_CPUS, cpus))


def _ask(opened: socket.socket, family: int, command: int, attributes: bytes) -> None:
    body = struct.pack("=BBH", command, 1, 0) + attributes
    opened.send(_HEADER.pack(_HEADER.size + len(body), family, _REQUEST, 1, 0) + body)


def _attribute(kind: int, content: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(content), kind) + content + bytes(-len(content) % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        yield kind & 0x3FFF, data[at + _ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3


def _ends(message: bytes, at: float) -> Iterator[Ended]:
    """Yield what a message tells: each task that has ended, a thread as part of its process."""
    for kind, content in _attributes(message[20:]):
        if kind == _AGGREGATE_OF_PROCESS:
            stats = dict(_attributes(content))[_STATS]
            (nanoseconds,) = struct.unpack_from("=Q", stats, _RUN_NANOSECONDS)
            pid, _ = struct.unpack_from("=II", stats, _IDS)
            (faults,) = struct.unpack_from("=Q", stats, _FAULTS)
            name = stats[_NAME : _NAME + _NAME_BYTES].partition(b"\0")[0].decode(errors="replace")
            yield Ended(pid, name, nanoseconds / 1e9, faults, at)
