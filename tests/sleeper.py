"""A unique command that sleeps for a day; its process can be found from outside its VM."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.waiting import until


class Sleeper:
    """A sleep whose command line is unique on the host."""

    def __init__(self) -> None:
        self.command = f"sleep 86400.{uuid.uuid4().int}"

    @property
    def runs(self) -> bool:
        """True if a process on the host runs this command."""
        wanted = self.command.encode().replace(b" ", b"\0") + b"\0"
        return any(_command_line(process) == wanted for process in Path("/proc").glob("[0-9]*"))

    def wait_for(self, *, runs: bool, seconds: float = 60.0) -> None:
        """Wait until the process exists, or until it is gone."""
        until(lambda: self.runs is runs, f"the {'start' if runs else 'end'} of {self.command}", seconds)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
