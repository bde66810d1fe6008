"""A shell in a VM of its own, with a fork of the disk that a job has left."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ci_daemon.debug.shell import Shell
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.forks import Fork, Forks
    from actors.vms import Providers
    from storage import Build, Job

HOLD_SECONDS = 180
"""The most seconds that the VM of a killed shell lives on."""

_BEAT_SECONDS = 60.0
_MOST_BEATS = 4 * 60
"""Four hours: then the VM of a forgotten shell ends."""


class ForkShell:
    """A shell that destroys its VM as it is closed. To make one raises DiskGone, ForkBusy and VmError."""

    def __init__(
        self, forks: Forks, providers: Providers, build: Build, job: Job, *, before: bool, opened_by: str
    ) -> None:
        self._forks = forks
        self._closed = threading.Event()
        with ExitStack() as opening:
            fork = opening.enter_context(
                forks.open(build, job, before=before, seconds=HOLD_SECONDS, opened_by=opened_by)
            )
            endpoint = providers.of(fork.lease).connect(fork.lease.uuid)
            self._shell = Shell(endpoint, SystemClock(), fork.variables)
            self._closing = opening.pop_all()
        threading.Thread(target=self._beat, args=(fork,), name="fork-shell", daemon=True).start()

    def run(self, command: Sequence[str]) -> int:
        """Run a command and return its exit code; an empty one is a shell at this process's terminal.

        Raises ConnectionLost if the VM ends before the command.
        """
        return self._shell.run(command)

    def close(self) -> None:
        """Close the connection and destroy the VM."""
        self._closed.set()
        self._shell.close()
        self._closing.close()

    def _beat(self, fork: Fork) -> None:
        for _ in range(_MOST_BEATS):
            if self._closed.wait(_BEAT_SECONDS) or not self._forks.lengthen(fork, HOLD_SECONDS):
                return
