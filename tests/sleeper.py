"""A unique command that sleeps for a day; its process can be found from outside its VM."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import until


class Sleeper:
    """A sleep whose command line is unique on the host."""

    def __init__(self) -> None:
        self.command = f"sleep 86400.{uuid.uuid4().int}"

    @property
    def runs(self) -> bool:
        """True if a process on the host runs this command."""
        return any(self._processes())

    def stop(self) -> None:
        """End the process of this command."""
        for process in self._processes():
            os.kill(process, signal.SIGTERM)

    def _processes(self) -> Iterator[int]:
        wanted = self.command.encode().replace(b" ", b"\0") + b"\0"
        return (int(each.name) for each in Path("/proc").glob("[0-9]*") if _command_line(each) == wanted)

    def wait_for(self, *, runs: bool, seconds: float = 60.0) -> None:
        """Wait until the process exists, or until it is gone."""
        until(lambda: self.runs is runs, f"the {'start' if runs else 'end'} of {self.command}", seconds)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
