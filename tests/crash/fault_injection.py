"""Fault injection: `python -m tests.crash.fault_injection …` is a `ci-daemon …` that kills itself.

CRASH_POINT names the fatal function, CRASH_CALL the number of the call, from 1 on, and CRASH_WHEN is ``before`` or
``after``: the process dies before or after that call. If CRASH_VMS is the path of a file, the VM that is the function's
first argument is killed instead, and its id is added to the file.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors import vms
from actors.scheduling.parked_vms import ParkedConnections
from actors.vms import SandboxProvider
from actors.vms.host import VmLimits
from actors.vms.sandbox import provider as sandboxes
from actors.vms.sandbox.disks import Disks
from ci_daemon.command import main
from storage.billing.holds import Holds
from storage.builds.artifacts import Artifacts, TakenBuilds
from storage.builds.builds import Builds
from storage.builds.gates import Gates
from storage.builds.generated import GeneratedJobs
from storage.builds.jobs import Attempts, Jobs
from storage.builds.retries import Retries
from storage.builds.told import Told
from storage.database.connection import Database
from storage.files import log_writer
from storage.files.artifacts import ArtifactFiles
from storage.files.log_writer import LogWriter
from storage.files.sources import Sources
from storage.files.workspaces import Workspaces
from storage.leases.cache import Cache, Snapshots
from storage.leases.kept_disks import KeptDisks
from storage.leases.leases import Leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.vms.host.vm_folder import VmFolder

POINTS: dict[str, tuple[Any, str]] = {
    "artifacts.inherit": (Artifacts, "inherit"),
    "artifacts.write": (ArtifactFiles, "write"),
    "attempts.exited": (Attempts, "exited"),
    "attempts.name_disk": (Attempts, "name_disk"),
    "builds.conclude": (Builds, "conclude"),
    "builds.create": (Builds, "create"),
    "builds.move": (Builds, "move"),
    "builds.request_cancel": (Builds, "request_cancel"),
    "cache.drop": (Cache, "drop"),
    "cache.hit": (Cache, "hit"),
    "cache.store": (Cache, "store"),
    "connections.add": (ParkedConnections, "add"),
    "command.start": (vms, "start"),
    "command.terminate": (vms, "terminate"),
    "database.execute": (Database, "execute"),
    "disks.freeze": (Disks, "freeze"),
    "files.lay": (vms, "lay_files"),
    "gates.ask": (Gates, "ask"),
    "gates.decide": (Gates, "decide"),
    "generated.add": (GeneratedJobs, "add"),
    "generated.keep": (GeneratedJobs, "keep"),
    "holds.begin": (Holds, "begin"),
    "holds.end": (Holds, "end"),
    "jobs.finish": (Jobs, "finish"),
    "jobs.move": (Jobs, "move"),
    "jobs.retry": (Jobs, "retry"),
    "kept_disks.keep": (KeptDisks, "keep"),
    "launch.greeting": (sandboxes, "await_greeting"),
    "launch.ready": (sandboxes, "await_ready"),
    "leases.active": (Leases, "active"),
    "leases.assign": (Leases, "assign"),
    "leases.end": (Leases, "end"),
    "leases.parked": (Leases, "parked"),
    "leases.reserve_parked": (Leases, "reserve_parked"),
    "leases.start": (Leases, "start"),
    "limits.make_groups": (VmLimits, "make_groups"),
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
    "retries.begin": (Retries, "begin"),
    "services.start": (vms, "start_services"),
    "snapshots.add": (Snapshots, "add"),
    "snapshots.remove": (Snapshots, "remove"),
    "taken_builds.take": (TakenBuilds, "take"),
    "told.store_outputs": (Told, "store_outputs"),
    "workspace.lay": (vms, "lay_workspace"),
    "workspace.pack": (vms, "pack_workspace"),
    "workspace.update": (vms, "update_workspace"),
    "workspaces.write": (Workspaces, "write"),
    "sources.link": (Sources, "link"),
    "sources.store": (Sources, "store"),
}
"""The functions that make the service's state changes: each one's owner and name."""

VM_POINTS = ("launch.greeting", "launch.ready")
"""Those with a VM as first argument, which is being parked, or to which a disk is being attached."""

MAX_CALLS = {"database.execute": 300, "log.output": 40, "log.write": 80}
"""Functions that are called often: the fatal call is one of the first so many."""

_KILL_SECONDS = 10.0


def inject(point: str, when: str, call: int, strike: Callable[..., None]) -> None:
    """Strike at a call of a point's function, with the function's arguments."""
    owner, name = POINTS[point]
    real = getattr(owner, name)
    calls = itertools.count(1)

    @functools.wraps(real)
    def faulty(*arguments: Any, **named: Any) -> Any:
        fatal = next(calls) == call
        if fatal and when == "before":
            strike(*arguments)
        result = real(*arguments, **named)
        if fatal and when == "after":
            strike(*arguments)
        return result

    setattr(owner, name, faulty)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_vm(killed: Path, vm: VmFolder, *_: object) -> None:
    with killed.open("a") as file:
        file.write(f"{vm.id}\n")
    for process in vm.processes():
        process.kill(_KILL_SECONDS)


if __name__ == "__main__":
    environ = os.environ
    strike = functools.partial(_kill_vm, Path(environ["CRASH_VMS"])) if "CRASH_VMS" in environ else _die
    inject(environ["CRASH_POINT"], environ["CRASH_WHEN"], int(environ["CRASH_CALL"]), strike)
    sys.exit(main())
