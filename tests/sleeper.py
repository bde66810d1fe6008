"""A unique command that sleeps for a day; its process can be found from outside its VM."""

from __future__ import annotations

import time
import uuid
from pathlib import Path


class Sleeper:
    """A sleep whose command line is unique on the host."""

    def __init__(self) -> None:
        self.command = f"sleep 86400.{uuid.uuid4().int}"

    @property
    def runs(self) -> bool:
        """True if a process on the host runs this command."""
        wanted = self.command.encode().replace(b" ", b"\0") + b"\0"
        return any(_command_line(process) == wanted for process in Path("/proc").glob("[0-9]*"))

    def wait_for(self, *, runs: bool, seconds: float = 30.0) -> None:
        """Wait until the process exists, or until it is gone."""
        deadline = time.monotonic() + seconds
        while self.runs is not runs:
            assert time.monotonic() < deadline, f"{self.command}: still {'not ' if runs else ''}there after {seconds} s"
            time.sleep(0.02)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
