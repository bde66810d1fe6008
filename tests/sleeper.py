"""A command that sleeps for a day and can be told from all others, since its process is seen from outside its VM."""

from __future__ import annotations

import time
import uuid
from pathlib import Path


class Sleeper:
    """One such command."""

    def __init__(self) -> None:
        self.command = f"sleep 86400.{uuid.uuid4().int}"

    @property
    def runs(self) -> bool:
        """Whether a process of the host is this very command."""
        wanted = self.command.encode().replace(b" ", b"\0") + b"\0"
        return any(_command_line(process) == wanted for process in Path("/proc").glob("[0-9]*"))

    def wait_for(self, *, runs: bool, seconds: float = 30.0) -> None:
        """Wait for the process to be there, or to be gone."""
        deadline = time.monotonic() + seconds
        while self.runs is not runs:
            assert time.monotonic() < deadline, f"{self.command}: still {'not ' if runs else ''}there after {seconds} s"
            time.sleep(0.02)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
