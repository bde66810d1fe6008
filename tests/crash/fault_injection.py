"""Fault injection: `python -m tests.crash.fault_injection …` is a `ci-daemon …` that kills itself.

CRASH_POINT names the fatal function, CRASH_CALL the number of the call, from 1 on, and CRASH_WHEN is ``before`` or
``after``: the process dies before or after that call.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
from typing import Any

from actors import vms
from actors.vms.sandbox import SandboxProvider
from actors.vms.sandbox.disks import Disks
from ci_daemon.command import main
from storage.builds.attempts import Attempts
from storage.builds.builds import Builds
from storage.builds.cache import Cache
from storage.builds.holds import Holds
from storage.builds.jobs import Jobs
from storage.builds.leases import Leases
from storage.builds.snapshots import Snapshots
from storage.database.connection import Database
from storage.files import log_writer
from storage.files.artifacts import ArtifactFiles
from storage.files.log_writer import LogWriter
from storage.files.sources import Sources

POINTS: dict[str, tuple[Any, str]] = {
    "artifacts.write": (ArtifactFiles, "write"),
    "attempts.exited": (Attempts, "exited"),
    "builds.create": (Builds, "create"),
    "builds.move": (Builds, "move"),
    "builds.request_cancel": (Builds, "request_cancel"),
    "cache.drop": (Cache, "drop"),
    "cache.hit": (Cache, "hit"),
    "cache.store": (Cache, "store"),
    "command.start": (vms, "start"),
    "command.terminate": (vms, "terminate"),
    "database.execute": (Database, "execute"),
    "disks.freeze": (Disks, "freeze"),
    "holds.begin": (Holds, "begin"),
    "holds.end": (Holds, "end"),
    "jobs.finish": (Jobs, "finish"),
    "jobs.move": (Jobs, "move"),
    "jobs.retry": (Jobs, "retry"),
    "leases.active": (Leases, "active"),
    "leases.assign": (Leases, "assign"),
    "leases.end": (Leases, "end"),
    "leases.parked": (Leases, "parked"),
    "leases.reserve_parked": (Leases, "reserve_parked"),
    "leases.start": (Leases, "start"),
    "log.end": (LogWriter, "end"),
    "log.notice": (LogWriter, "notice"),
    "log.output": (LogWriter, "output"),
    "log.write": (log_writer, "_write_at"),
    "provider.attach": (SandboxProvider, "attach"),
    "provider.create": (SandboxProvider, "create"),
    "provider.destroy": (SandboxProvider, "destroy"),
    "provider.park": (SandboxProvider, "park"),
    "provider.remove_snapshot": (SandboxProvider, "remove_snapshot"),
    "provider.snapshot": (SandboxProvider, "snapshot"),
    "snapshots.add": (Snapshots, "add"),
    "snapshots.remove": (Snapshots, "remove"),
    "workspace.update": (vms, "update_workspace"),
    "sources.remove": (Sources, "remove"),
    "sources.store": (Sources, "store"),
}
"""The functions that make the service's state changes: each one's owner and name."""

MAX_CALLS = {"database.execute": 300, "log.output": 40, "log.write": 80}
"""Functions that are called often: the fatal call is one of the first so many."""


def inject(point: str, when: str, call: int) -> None:
    """Make the process die at a call."""
    owner, name = POINTS[point]
    real = getattr(owner, name)
    calls = itertools.count(1)

    @functools.wraps(real)
    def faulty(*arguments: Any, **named: Any) -> Any:
        fatal = next(calls) == call
        if fatal and when == "before":
            _die()
        result = real(*arguments, **named)
        if fatal:
            _die()
        return result

    setattr(owner, name, faulty)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    inject(os.environ["CRASH_POINT"], os.environ["CRASH_WHEN"], int(os.environ["CRASH_CALL"]))
    sys.exit(main())
