"""Control groups of VMs, v1 or v2: found, made, measured and removed, with the limits they enforce.

A VM's group is beside the service's own, never in it, so that either can be removed while the other stays. Where no
group can be made, a VM's shape is enforced by resource limits, as far as these go.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.description import Enforcement
from actors.vms.launcher.broker import BROKER_VARIABLE
from actors.vms.launcher.shares import of_job
from actors.vms.provider import VmError, VmUse
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from storage import Shape


CONTROLLERS = ("cpu", "memory", "pids")

_VMS_UNIT_GROUP = "ci.slice/ci-vms.slice/ci-daemon-vms.service"
_TOP = "ci-daemon"
_LEAF = "daemon"
_PERIOD = 100_000
_USUAL_WEIGHT = 100
_SHARES = 1024
"""The usual weight in version 1, where each program of the host has as much: less starves VMs."""

_OWN_WEIGHT = 400
"""The weight of the service's own group in version 2, for the same reason."""

_PAUSE_SECONDS = 0.005


@immutable
class GroupLimits:
    """The limits of a part of a VM: whole CPUs, None for all, bytes of memory, processes."""

    cpu: int | None
    memory: int
    pids: int


@immutable
class Hierarchy:
    """A tree of control groups in which this process may make groups, below ``parent``.

    The groups have ``controllers`` of ``version``. In version 2 a group must enable controllers for its children: the
    groups that do so are ``enable_in``, outermost first. Such a group holds no processes itself, so those of
    ``emptied`` move to a leaf of it.
    """

    version: int
    controllers: tuple[str, ...]
    parent: Path
    enable_in: tuple[Path, ...] = ()
    emptied: Path | None = None

    def folder(self, name: str) -> Path:
        """Return the path of a group, made or not."""
        return self.parent / name

    def groups(self, prefix: str) -> Iterator[Path]:
        """Find the groups whose names begin with ``prefix``; none if the parent does not exist yet."""
        return self.parent.glob(f"{prefix}*")

    def join_file(self, name: str) -> str:
        """Return the path of the file through which a single-threaded process joins a group.

        In version 1 that is ``tasks``: ``cgroup.procs`` would wait 15 ms until all CPUs see that no process forks.
        """
        return f"{self.parent}/{name}/{'tasks' if self.version == 1 else 'cgroup.procs'}"

    def make(self, name: str, group: GroupLimits) -> None:
        """Make a group. Raises OSError."""
        self._delegate_controllers()
        folder = self.folder(name)
        folder.mkdir()
        if self.version == 1:  # the VM's root joins it, by a descriptor: see launcher/vm.py
            folder.chmod(0o700)
            Path(self.join_file(name)).chmod(0o666)
        for file, value in self._settings(group):
            _write(str(folder), file, value)
        self.set_weight(name, _USUAL_WEIGHT)

    def widen(self, name: str, group: GroupLimits) -> None:
        """Raise the limits of a group; that of memory is never above that of memory and swap. Raises OSError."""
        for file, value in reversed(list(self._settings(group))):
            _write(f"{self.parent}/{name}", file, value)

    def set_weight(self, name: str, weight: int) -> None:
        """Set a group's weight when several groups compete for the CPU; the usual one is 100.

        Raises OSError.
        """
        if "cpu" in self.controllers:
            first = self.version == 1
            file, value = ("cpu.shares", max(2, weight * _SHARES // _USUAL_WEIGHT)) if first else ("cpu.weight", weight)
            _write(f"{self.parent}/{name}", file, str(value))

    def _delegate_controllers(self) -> None:
        if self.emptied:
            leaf = self.emptied / _LEAF
            leaf.mkdir(exist_ok=True)
            for pid in _read(self.emptied / "cgroup.procs"):
                with suppress(ProcessLookupError):
                    _write(str(leaf), "cgroup.procs", pid)
        for folder in self.enable_in:
            folder.mkdir(exist_ok=True)
            if missing := set(self.controllers) - set(_read(folder / "cgroup.subtree_control")):
                _write(str(folder), "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(missing)))
        if self.emptied and "cpu" in self.controllers:
            _write(str(self.emptied / _LEAF), "cpu.weight", str(_OWN_WEIGHT))

    def _settings(self, group: GroupLimits) -> Iterator[tuple[str, str]]:
        first = self.version == 1
        if "pids" in self.controllers:
            yield "pids.max", str(group.pids)
        if "memory" in self.controllers:
            yield ("memory.limit_in_bytes" if first else "memory.max"), str(group.memory)
            yield ("memory.memsw.limit_in_bytes", str(group.memory)) if first else ("memory.swap.max", "0")
        if "cpu" in self.controllers and group.cpu is not None:
            quota = str(group.cpu * _PERIOD)
            yield ("cpu.cfs_quota_us", quota) if first else ("cpu.max", f"{quota} {_PERIOD}")


def find_hierarchies(proc: Path = Path("/proc/self"), environ: Mapping[str, str] = os.environ) -> list[Hierarchy]:
    """Find where this process may make control groups, given its environment. Changes nothing."""
    mounts = list(_mounts(proc))
    found: list[Hierarchy] = []
    for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        version = 1 if names else 2
        for mount in mounts:
            if mount.version == version and (not names or set(names.split(",")) <= mount.options):
                own = mount.folder_of(path)
                usable = (
                    _v1_hierarchies(mount.folder, names.split(","))
                    if names
                    else _v2_hierarchies(own, mount.folder, environ)
                )
                found += usable
                if usable:  # one hierarchy may be mounted in several places, or twice in one
                    break
    return found


def remove_groups(folders: Iterable[Path], seconds: float = 5.0) -> None:
    """Remove groups whose processes have ended; missing groups are fine.

    Raises VmError if a group stays in use for ``seconds``.
    """
    deadline = time.monotonic() + seconds
    for folder in folders:
        while True:
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    message = f"the control group {folder} of a VM that has ended cannot be removed: {error.strerror}"
                    raise VmError(message) from error
                time.sleep(_PAUSE_SECONDS)
            else:
                break


@immutable
class _Mount:
    folder: Path
    root: str
    version: int
    options: frozenset[str]

    def folder_of(self, path: str) -> Path:
        """Return the path of a group in ``/proc/PID/cgroup``; a container's mount shows only part of the tree."""
        inside = path.removeprefix(self.root.rstrip("/")).lstrip("/")
        return self.folder / inside


def _mounts(proc: Path) -> Iterator[_Mount]:
    for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            root, folder = fields.split(" ")[3:5]
            version = 2 if kind == "cgroup2" else 1
            yield _Mount(Path(folder), root, version, frozenset(options.split(",")))


def _v1_hierarchies(top: Path, controllers: list[str]) -> list[Hierarchy]:
    """Put v1 groups at the top: the manager of the service's own group may remove idle ones near it."""
    wanted = tuple(name for name in CONTROLLERS if name in controllers)
    return [Hierarchy(1, wanted, top)] if wanted and os.access(top, os.W_OK) else []


def _v2_hierarchies(own: Path, root: Path, environ: Mapping[str, str]) -> list[Hierarchy]:
    """Find the parent of v2 groups.

    With a broker it is the group that systemd keeps for the broker and the VMs (``systemd/ci-daemon-vms.service``),
    even if that has no controllers to enable. Otherwise it is the group whose leaf ``daemon`` the service is in, or the
    group that the service is alone in, or, for root, ``ci-daemon`` at the top.
    """
    kept = root / _VMS_UNIT_GROUP
    if BROKER_VARIABLE in environ and _may_use(kept):
        return [Hierarchy(2, _controllers_of(kept), kept, (kept,))]
    emptied: Path | None = None
    enable_in: tuple[Path, ...]
    if own.name == _LEAF and own != root and _may_use(own.parent):
        enable_in = (own.parent,)
    elif own != root and _may_use(own) and _read(own / "cgroup.procs") == [str(os.getpid())]:
        enable_in, emptied = (own,), own
    elif _may_use(root):
        enable_in = (root, root / _TOP)
    else:
        return []
    wanted = _controllers_of(enable_in[0])
    return [Hierarchy(2, wanted, enable_in[-1], enable_in, emptied)] if wanted else []


def _controllers_of(folder: Path) -> tuple[str, ...]:
    available = _read(folder / "cgroup.controllers")
    return tuple(name for name in CONTROLLERS if name in available)


def _may_use(folder: Path) -> bool:
    files = (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control")
    return all(os.access(file, os.W_OK) for file in files)


def _read(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").split()


def _write(folder: str, file: str, value: str) -> None:
    """Set a value, unless there is nothing to limit.

    A kernel that does not account swap has no file for it. A CPU quota that is refused is bounded further up already.
    Each VM has dozens of values, so nothing but system calls is made.
    """
    try:
        descriptor = os.open(f"{folder}/{file}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
    except FileNotFoundError:
        if "sw" not in file:
            raise
        return
    try:
        os.write(descriptor, value.encode("ascii"))
    except OSError as error:
        if error.errno != errno.EINVAL or not file.startswith("cpu."):
            raise
    finally:
        os.close(descriptor)


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

    def join_files(self, name: str) -> list[str]:
        """Return the paths of the files through which a process joins the control groups of that name."""
        return [hierarchy.join_file(name) for hierarchy in self.hierarchies]

    def of_job(self, shape: Shape) -> GroupLimits:
        """Return the limits of a job's control groups."""
        return GroupLimits(cpu=shape.cpu, memory=shape.memory_gb * _GB, pids=of_job(self.processes))

    def make_groups(self, name: str, group: GroupLimits) -> None:
        """Make a VM's control groups. Raises VmError; freeing the VM removes the groups made so far."""
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


_USAGE = re.compile(r"^usage_usec (\d+)$", re.MULTILINE)


def measure(groups: Iterable[Path]) -> VmUse:
    """Combine the counts of a VM's groups; version 1 has one group for each controller."""
    cpu: float | None = None
    memory: int | None = None
    for group in groups:
        if found := _USAGE.search(_text(group / "cpu.stat")):
            cpu = int(found[1]) / 10**6
        elif nanoseconds := _text(group / "cpuacct.usage"):
            cpu = int(nanoseconds) / 10**9
        if current := _text(group / "memory.current") or _text(group / "memory.usage_in_bytes"):
            memory = int(current)
    return VmUse(cpu, memory)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
