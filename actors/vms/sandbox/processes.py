"""Processes identified by id and start time, because an id alone may be used again."""

from __future__ import annotations

import os
import select
import signal
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE, _STARTED = 0, 19


@immutable
class ProcessIdentity:
    """A process of this host; ``started`` is in clock ticks since boot, as in ``/proc/PID/stat``."""

    pid: int
    started: int

    @classmethod
    def parse(cls, line: str) -> ProcessIdentity | None:
        """Parse ``PID STARTED``; return None for an incomplete line."""
        fields = line.split(" ")
        return cls(int(fields[0]), int(fields[1])) if len(fields) == 2 and line.endswith("\n") else None  # noqa: PLR2004 - its words

    @classmethod
    def of_first_below(cls, pid: int) -> ProcessIdentity | None:
        """Return the child of a process that is PID 1 of a namespace; None if none can be seen."""
        with suppress(OSError):  # it has ended, or the kernel does not list children
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split():
                status = Path(f"/proc/{int(child)}/status").read_bytes()
                ids = next(line.split()[1:] for line in status.splitlines() if line.startswith(b"NSpid:"))
                if len(ids) > 1 and ids[-1] == b"1":
                    stat = Path(f"/proc/{int(child)}/stat").read_bytes()
                    return cls(int(child), int(stat.rpartition(b")")[2].split()[_STARTED]))
        return None

    @property
    def alive(self) -> bool:
        """True if this very process runs; a zombie does not."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return False
        fields = stat.rpartition(b")")[2].split()
        return int(fields[_STARTED]) == self.started and fields[_STATE] not in (b"Z", b"X")

    def kill(self, seconds: float) -> bool:
        """Kill this process, never another one, and wait for its end; False if it outlives ``seconds``."""
        with self._pidfd() as descriptor:
            if descriptor is None:
                return True
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(seconds * 1000))

    @contextmanager
    def _pidfd(self) -> Iterator[int | None]:
        """Yield a descriptor of this very process, or None if it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        with closing(os.fdopen(descriptor, "rb", buffering=0)):
            yield descriptor if self.alive else None
