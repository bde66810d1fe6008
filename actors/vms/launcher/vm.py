"""The first process of a VM: it maps the VM's ids from outside, records the VM's processes, and ends.

``ready`` or ``failed WHY`` is written to its standard output; its standard error is the VM's log. The lock file makes
the VM findable: this process and then the monitor hold it as long as anything of the VM lives, and their ids are
written in it.
"""

from __future__ import annotations

import marshal
import os
import sys

from . import monitor, shares
from .ids import map_ids
from .kernel import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, raise_oom_score, unshare
from .machine import monitor as machine_monitor

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_REPORT, _LOG = 1, 2
_OOM_SCORE = 990
"""Slightly below a job's 1000, so that the kernel kills the job before what runs it.

A job can lower its own score to this, no further: the less they differ, the less it gains over its neighbours.
"""


def make(lock: int, listener: int, control: int) -> int:
    """Make the sandbox of the spec with these descriptors; return an exit status."""
    return _start(monitor.run, {"lock": lock, "arrivals": listener, "control": control})


def make_machine(lock: int, listener: int, control: int, commands: int) -> int:
    """Make the machine of the spec with these descriptors; return an exit status."""
    given = {"lock": lock, "listener": listener, "control": control, "commands": commands}
    return _start(machine_monitor.run, given)


def _start(run: Callable[[dict[str, Any], int, int, int], NoReturn], given: dict[str, int]) -> int:
    """Start the monitor that runs by this function; return an exit status."""
    spec = {**marshal.load(sys.stdin.buffer), **given}  # noqa: S302 - from the service itself
    try:
        _record(spec["lock"], os.getpid())
        _join(spec["cgroups"])
        raise_oom_score(_OOM_SCORE)
        spec["share_of_objects"] = shares.take_objects(spec["vms"])
        spec["share_of_limits"] = shares.take_limits(spec["vms"], spec["processes"])
        spec["terminals"] = shares.take_terminals(spec["vms"])
        pid, mapped = _fork_monitor(run, spec)
        _record(spec["lock"], pid)
        map_ids(pid, spec["uid_map"], spec["gid_map"])
        os.write(mapped, b"1")
    except OSError as error:
        os.write(_REPORT, f"failed {error}\n".encode())
        return 1
    return 0


def _record(lock: int, pid: int) -> None:
    """Add a process to the lock file: its id, and its start time, because an id may be used again."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        started = file.read().rpartition(b")")[2].split()[19]
    os.write(lock, b"%d %s\n" % (pid, started))


def _join(cgroups: list[str]) -> None:
    for join_file in cgroups:
        with open(join_file, "wb", buffering=0) as file:
            file.write(b"0")


def _fork_monitor(run: Callable[[dict[str, Any], int, int, int], NoReturn], spec: dict[str, Any]) -> tuple[int, int]:
    """Return the monitor's id, and the descriptor that tells it that its ids are mapped."""
    mapped, report_mapped = os.pipe()
    forked, report_pid = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(report_mapped)
            unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)
            pid = os.fork()
            if pid == 0:
                os.close(report_pid)
                run(spec, mapped, _REPORT, _LOG)
            os.write(report_pid, str(pid).encode())
        except OSError as error:
            os.write(_REPORT, f"failed user namespaces are not allowed here: {error}\n".encode())
        finally:
            os._exit(0)
    os.close(report_pid)
    pid = int(os.read(forked, 16) or b"0")
    os.waitpid(child, 0)
    if not pid:
        sys.exit(1)
    return pid, report_mapped
