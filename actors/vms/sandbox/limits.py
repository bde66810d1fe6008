"""Enforcement of a VM's shape on this host: by control groups if possible, else by resource limits."""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING

from actors.vms.description import Enforcement
from actors.vms.provider import VmError
from actors.vms.sandbox.cgroups import CONTROLLERS, GroupLimits, Hierarchy, find_hierarchies
from actors.vms.sandbox.launcher.shares import of_job
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from storage import Shape

_GB = 1 << 30
_NO_GROUP = {errno.ENOENT, errno.ENODEV}
"""Errors of a group that was just removed: of opening its file, and of writing to the open file."""

_OPEN_FILES = 65_536

SERVICE_LIMITS = GroupLimits(cpu=None, memory=256 << 20, pids=1_000)
"""The limits of the service's own part of a VM: sshd and its sessions, and the job's supervisor."""

_SMALLEST_CORE_LIMIT = 1
"""With 0 the kernel still pipes core dumps to the host's program for them; with 1 byte it does not."""


@immutable
class VmLimits:
    """The limits of VMs: ``processes`` is the most in one VM, groups are made in ``hierarchies``."""

    processes: int
    hierarchies: tuple[Hierarchy, ...]

    @classmethod
    def of_host(cls, processes: int, environ: Mapping[str, str] = os.environ) -> VmLimits:
        """Find the hierarchies that this process may use, given its environment. Changes nothing."""
        return cls(processes, tuple(find_hierarchies(environ=environ)))

    def describe(self) -> list[Enforcement]:
        """Describe the enforcement of each part of a shape, for `ci-daemon doctor` and the start-up log."""
        fallbacks = {
            "cpu": Enforcement("cpu", enforced=False, how="no control group may be made here"),
            "memory": Enforcement("memory", enforced=False, how="each process has the limit, their sum has none"),
            "pids": Enforcement("pids", enforced=True, how="RLIMIT_NPROC of a VM's user namespace"),
        }
        by_group = {
            name: Enforcement(name, enforced=True, how=f"cgroup v{hierarchy.version} below {hierarchy.parent}")
            for hierarchy in self.hierarchies
            for name in hierarchy.controllers
        }
        disk = Enforcement("disk", enforced=True, how="measured while a job runs; no file grows past the disk's size")
        return [*({**fallbacks, **by_group}[name] for name in CONTROLLERS), disk]

    def groups(self, name: str) -> tuple[Path, ...]:
        """Return the paths of the control groups of that name, made or not."""
        return tuple(hierarchy.folder(name) for hierarchy in self.hierarchies)

    def names_with(self, prefix: str) -> set[str]:
        """Return the names of all control groups that begin with ``prefix``, without it."""
        groups = (path for hierarchy in self.hierarchies for path in hierarchy.groups(prefix))
        return {path.name.removeprefix(prefix) for path in groups}

    def join_files(self, name: str) -> tuple[Path, ...]:
        """Return the files through which a process joins the control groups of that name."""
        return tuple(hierarchy.join_file(name) for hierarchy in self.hierarchies)

    def of_job(self, shape: Shape) -> GroupLimits:
        """Return the limits of a job's control groups."""
        return GroupLimits(cpu=shape.cpu, memory=shape.memory_gb * _GB, pids=of_job(self.processes))

    def make_groups(self, name: str, group: GroupLimits) -> None:
        """Make a VM's control groups. Raises VmError; freeing the VM removes what was made by then."""
        try:
            for hierarchy in self.hierarchies:
                hierarchy.make(name, group)
        except OSError as error:
            message = f"the control groups of a VM cannot be created: {error_reason(error)}"
            raise VmError(message) from error

    def widen_groups(self, name: str, group: GroupLimits) -> None:
        """Raise the limits of a VM's control groups. Raises OSError."""
        for hierarchy in self.hierarchies:
            hierarchy.widen(name, group)

    def set_weight(self, name: str, weight: int) -> None:
        """Set the share of the CPU of a VM's control groups, if they exist; the usual one is 100."""
        try:
            for hierarchy in self.hierarchies:
                hierarchy.set_weight(name, weight)
        except OSError as error:
            if error.errno not in _NO_GROUP:
                raise

    def of_processes(self, shape: Shape) -> list[tuple[int, int, int]]:
        """Return the resource limits of a VM's processes as (kind, soft, hard)."""
        controlled = {name for hierarchy in self.hierarchies for name in hierarchy.controllers}
        most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limits = {
            resource.RLIMIT_NOFILE: min(most_files, _OPEN_FILES) if most_files > 0 else _OPEN_FILES,
            resource.RLIMIT_FSIZE: shape.disk_gb * _GB,
            resource.RLIMIT_CORE: _SMALLEST_CORE_LIMIT,
        }
        if "memory" not in controlled:
            limits[resource.RLIMIT_DATA] = shape.memory_gb * _GB
        return [(kind, value, value) for kind, value in limits.items()]
