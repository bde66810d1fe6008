"""The control group of a machine's job, so that what serves the job ranks above it.

The job is root of the guest, which no resource limit binds. What else runs there is in no group: the kernel gives it a
hundred times the weight of the job's whole group, and memory and process ids that the job cannot take.
"""

from __future__ import annotations

import os

from .. import outer
from ..kernel import MS_NODEV, MS_NOEXEC, MS_NOSUID, mount

_FOLDER = f"{outer.FOLDER}/groups"
_JOB = f"{_FOLDER}/job"
_CONTROLLERS = "+cpu +memory +pids"
_WEIGHT = 1
_SERVICE_BYTES = 64 << 20


def make(processes: int, memory_bytes: int) -> int:
    """Make the group of a job in a machine of so much memory.

    Returns the descriptor by which processes join it. The job sees no group above its own. Raises OSError.
    """
    os.mkdir(_FOLDER, 0o700)
    mount("none", _FOLDER, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate")
    _write(f"{_FOLDER}/cgroup.subtree_control", _CONTROLLERS)
    os.mkdir(_JOB, 0o700)
    limits = {"cpu.weight": _WEIGHT, "memory.max": memory_bytes - _SERVICE_BYTES, "pids.max": processes}
    for name, value in limits.items():
        _write(f"{_JOB}/{name}", str(value))
    return os.open(f"{_JOB}/cgroup.procs", os.O_WRONLY)


def _write(path: str, value: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(value.encode())
