"""Processes identified by id and start time, because an id alone may be used again."""

from __future__ import annotations

import os
import select
import signal
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ProcessIdentity"]

_STATE, _STARTED = 0, 19


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this host; ``started`` is in clock ticks since boot, as in ``/proc/PID/stat``."""

    pid: int
    started: int

    @classmethod
    def parse(cls, line: str) -> ProcessIdentity | None:
        """Parse ``PID STARTED``; return None for an incomplete line."""
        fields = line.split(" ")
        return cls(int(fields[0]), int(fields[1])) if len(fields) == 2 and line.endswith("\n") else None  # noqa: PLR2004 - its words

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
