"""Instances of the engine: made, started, watched and removed. Nothing of others is touched.

They are containers, or machines with a kernel of their own. Their logs, which the engine's runtime writes, tell why one
did not start.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from actors.vms.description import Enforcement, ProviderDescription
from actors.vms.incus.engine import part
from actors.vms.incus.refusals import EngineError, NotFound, StartFailed
from actors.vms.incus.volumes import OWNER, names_of
from actors.vms.launcher.words import SERVICE_DISK
from actors.vms.provider import VmError, VmUse
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.incus.engine import Engine
    from actors.vms.incus.volumes import Names
    from actors.vms.settings import InstanceType
    from storage import Shape


DISK_DEVICE = "disk"
"""The device that is the disk of a job. Those of its services are `SERVICE_DISK` and a number."""

_MACHINE_DRIVER = "qemu"
_MACHINE_SERVER = "incus"

_CONTAINER_MB = 256
"""The memory that a container has beyond its job's: for the outer layer, and the files that it reads."""

_MACHINE_MB = 384
"""The same for a machine, whose kernel takes some too."""

_DISK = Enforcement("disk", enforced=True, how="measured while a job runs; no file grows past the disk's size")


@immutable
class InstanceKind:
    """A kind of instances: the engine's word for it, the settings of all, and what its VMs are like."""

    type: InstanceType
    always: Mapping[str, str]
    disk: Mapping[str, str]
    """Settings of the devices that are disks of a job and its services."""

    share: str | None
    """The beginning of the names by which an instance mounts the disks itself; their devices follow."""

    description: ProviderDescription

    @property
    def is_machine(self) -> bool:
        """True if an instance has a kernel of its own, and so keeps the shape that it is made with."""
        return self.description.own_kernel

    def limits(self, shape: Shape | None) -> dict[str, str]:
        """Return the settings for a job's shape; None for an instance that waits for a job."""
        if self.is_machine:
            shape = _required(shape)
            return {"limits.cpu": str(shape.cpu), "limits.memory": f"{shape.memory_gb * 1024 + _MACHINE_MB}MiB"}
        cpus, memory_gb = (1, 0) if shape is None else (shape.cpu, shape.memory_gb)
        return {
            "limits.cpu.allowance": f"{cpus * 100}ms/100ms",
            "limits.memory": f"{memory_gb * 1024 + _CONTAINER_MB}MiB",
        }


def makes_machines(environment: Mapping[str, str]) -> bool:
    """Tell whether a member makes machines, by the ``environment`` that it reports.

    One without KVM lacks the driver. LXD has it, but another agent than the one that the launcher starts.
    """
    return environment["server"] == _MACHINE_SERVER and _MACHINE_DRIVER in environment.get("driver", "")


def _required(shape: Shape | None) -> Shape:
    if shape is None:
        message = "a machine is made for a job alone"
        raise ValueError(message)
    return shape


CONTAINERS = InstanceKind(
    "container",
    {
        "security.idmap.isolated": "true",  # the kernel counts descriptors in flight by the user id on the host
        "security.nesting": "true",  # init mounts file systems in namespaces of its own
    },
    {},
    None,
    ProviderDescription(
        parks=True,
        own_kernel=False,
        reserves=False,
        limits=(
            *(Enforcement(each, enforced=True, how="control groups of the engine") for each in ("cpu", "memory")),
            Enforcement("pids", enforced=True, how="limits of the user namespace in an instance"),
            _DISK,
        ),
    ),
)
MACHINES = InstanceKind(
    "virtual-machine",
    {"security.secureboot": "false"},  # the kernel and its first root are not signed
    {"io.cache": "unsafe"},  # no other instance has the disk, and without a cache no program can map a file to share it
    "incus_",
    ProviderDescription(
        parks=False,
        own_kernel=True,
        reserves=False,
        limits=(
            *(Enforcement(each, enforced=True, how="the engine gives a machine no more") for each in ("cpu", "memory")),
            Enforcement("pids", enforced=False, how="too many processes fill the job's own machine alone"),
            _DISK,
        ),
    ),
)
KINDS = {kind.type: kind for kind in (CONTAINERS, MACHINES)}


_CREATE_SECONDS = 600.0
"""The first instance of an image on a member unpacks it."""

_STOP_SECONDS = 60.0
_REMOVE_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_RUNNING, _STOPPED = "Running", "Stopped"
_NANOSECONDS = 1e9
_ALWAYS = {"boot.autostart": "false"}  # instances of a lost member do not start again by themselves
_NO_AGENT = -1
"""The number of processes that the engine reports for a machine whose agent it cannot reach."""


class Instances:
    """The instances of a project."""

    def __init__(self, engine: Engine, profile: str, names: Names) -> None:
        self._engine = engine
        self._names = names
        self._profile = profile

    def names(self) -> list[str]:
        """Return the names of all instances, also of those on members that do not answer."""
        return names_of(self._engine.get("/1.0/instances"))

    def check(self, kind: InstanceKind) -> None:
        """Raise EngineError if the member that answers makes no instances of a kind."""
        if not kind.is_machine:
            return
        environment = self._engine.get("/1.0")["environment"]
        if not makes_machines(environment):
            engine = f"{environment['server']} with the driver {environment.get('driver')}"
            message = (
                f"the engine, {engine}, makes no virtual machines for jobs: "
                "`ci-daemon doctor` says what its members need, or set incus.instances to container"
            )
            raise EngineError(message)

    def make(
        self,
        name: str,
        image: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        member: str | None,
        kind: InstanceKind = CONTAINERS,
    ) -> None:
        """Make an instance of an image on a member, and start it.

        Raises EngineError, also if the name is taken, and StartFailed; the instance may then be there.
        """
        self.create(name, {"type": "image", "alias": image}, config, devices, member, kind)
        try:
            self._engine.do("PUT", f"{_path(name)}/state", {"action": "start", "timeout": 30})
        except EngineError as error:
            if reason := errors_of(self._engine, name):
                message = f"instance {name} does not start: {reason}"
                raise StartFailed(message) from error
            raise

    def create(
        self,
        name: str,
        source: Mapping[str, str],
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        member: str | None,
        kind: InstanceKind = CONTAINERS,
    ) -> None:
        """Make an instance on a member that is not started. Raises as `make` does."""
        body = {
            "name": name,
            "type": kind.type,
            "source": source,
            "profiles": [self._profile],
            "config": {**_ALWAYS, **kind.always, OWNER: self._names.prefix, **config},
            "devices": devices,
        }
        target = {} if member is None else {"target": member}
        self._engine.do("POST", "/1.0/instances", body, target, seconds=_CREATE_SECONDS)

    def find(self, name: str) -> dict[str, Any] | None:
        """Return what the engine says of an instance, or None."""
        try:
            found: dict[str, Any] = self._engine.get(_path(name))
        except NotFound:
            return None
        return found

    def runs(self, name: str) -> bool:
        """Tell whether an instance runs."""
        found = self.find(name)
        return found is not None and found["status"] == _RUNNING

    def runs_programs(self, name: str) -> bool:
        """Tell whether the engine can run programs in a machine. Raises NotFound and EngineAway."""
        state = self._engine.get(f"{_path(name)}/state")
        return bool(state["status"] == _RUNNING and state["processes"] != _NO_AGENT)

    def change(
        self, name: str, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """Change settings of a running instance, and add devices to it."""
        body: dict[str, Any] = {"config": dict(config)} | ({} if devices is None else {"devices": devices})
        self._engine.do("PATCH", _path(name), body)

    def use(self, name: str) -> VmUse:
        """Return the CPU time and memory of an instance; unknown if it is gone or has ended."""
        try:
            state = self._engine.get(f"{_path(name)}/state")
        except NotFound:
            return VmUse()
        if state["status"] != _RUNNING:
            return VmUse()
        used = state["cpu"]["usage"]  # negative if it is not known, as of machines
        return VmUse(None if used < 0 else used / _NANOSECONDS, state["memory"]["usage"])

    def disk_bytes(self, name: str) -> tuple[int, int] | None:
        """Return the bytes of a job's disk and of those of its services, without those that they share.

        None if there is no such instance, or no disk. A member of a cluster tells this of another's instances, but not
        of another's volumes.
        """
        try:
            state = self._engine.get(f"{_path(name)}/state")
        except NotFound:
            return None
        used = {device: int(each["usage"]) for device, each in (state["disk"] or {}).items()}
        if DISK_DEVICE not in used:
            return None
        return used[DISK_DEVICE], sum(size for device, size in used.items() if device.startswith(SERVICE_DISK))

    def stop(self, name: str) -> None:
        """Kill all that runs in an instance; it stays. Raises NotFound and EngineError."""
        end = time.monotonic() + _STOP_SECONDS
        while True:
            try:
                self._engine.do("PUT", f"{_path(name)}/state", {"action": "stop", "force": True, "timeout": 30})
            except NotFound:
                raise
            except EngineError:
                if not self.runs(name):
                    return
                if time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def remove(self, name: str) -> None:
        """Stop and remove an instance of the service; return when it is gone.

        One that is not there is fine, and one of that name which is not the service's is left alone.
        """
        end = time.monotonic() + _REMOVE_SECONDS
        while (found := self.find(name)) is not None and self._names.own(found["config"]):
            try:
                if found["status"] != _STOPPED:
                    self.stop(name)
                self._engine.do("DELETE", _path(name))
            except NotFound:
                return
            except EngineError as error:  # another operation on it is under way
                if time.monotonic() > end:
                    message = f"instance {name} cannot be removed: {error}"
                    raise VmError(message) from error
                time.sleep(_PAUSE_SECONDS)


def _path(name: str) -> str:
    return f"/1.0/instances/{part(name)}"


_FILE = "lxc.log"
_READ_SECONDS = 10.0
_LEVEL = 3
"""The place of a line's level: ``lxc NAME TIME LEVEL PART - FILE:FUNCTION:LINE - MESSAGE``."""

_SHOWN_LINES = 8
_SHOWN_CHARS = 2000
_NO_TERMINAL = "No space left on device - Failed to allocate console"
_MORE_TERMINALS = "jobs have taken all terminals of its member: raise kernel.pty.max there"


def errors_of(engine: Engine, instance: str) -> str:
    """Return the errors in an instance's log; nothing if there are none, or the engine does not send it."""
    try:
        with engine.download(f"/1.0/instances/{part(instance)}/logs/{_FILE}", _READ_SECONDS) as blocks:
            return errors_in(b"".join(blocks).decode(errors="replace"))
    except VmError:
        return ""


def errors_in(log: str) -> str:
    """Return the first errors of a log, each with where it arose: the later ones follow from them.

    What to do comes first, where it is known and the errors do not say it.
    """
    words = [line.split(maxsplit=_LEVEL + 1) for line in log.splitlines()]
    errors = [each[-1] for each in words if len(each) > _LEVEL + 1 and each[_LEVEL] == "ERROR"]
    shown = [error.partition(" - ")[2] or error for error in errors[:_SHOWN_LINES]]
    advice = [_MORE_TERMINALS] if any(_NO_TERMINAL in each for each in shown) else []
    return "\n".join([*advice, *shown])[:_SHOWN_CHARS]
