"""Start the instances of VMs, and give them their keys and their jobs' parts.

The launcher's programs in an instance bring these to its init, and connections to its sshd.
"""

from __future__ import annotations

import marshal
import resource
from typing import TYPE_CHECKING, Any

from actors.vms.host.vm_folder import KeyPair, VmRecord
from actors.vms.incus.instances import DISK_DEVICE
from actors.vms.incus.outer_images import PROGRAMS
from actors.vms.incus.outer_layers import Bridge
from actors.vms.launcher.words import DISK, SERVICE_DISK
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from actors.vms.host.vm_folder import VmFolder
    from actors.vms.incus.disks import EngineParts
    from actors.vms.incus.exec_streams import ExecStreams, Program
    from actors.vms.incus.fleet import Places
    from actors.vms.incus.outer_layers import OuterLayers
    from actors.vms.incus.volumes import Volume
    from actors.vms.provider import VmSpec
    from actors.vms.settings import IncusSettings, SandboxSettings
    from storage import Clock, Shape


_MIN_SECONDS = 0.001


class Launch:
    """Parks and completes VMs on one engine; the caller removes what an error leaves."""

    def __init__(
        self,
        on: EngineParts,
        outer_layers: OuterLayers,
        places: Places,
        settings: IncusSettings,
        shared: SandboxSettings,
        clock: Clock,
    ) -> None:
        self._on = on
        self._outer_layers = outer_layers
        self._places = places
        self._settings = settings
        self._shared = shared
        self._clock = clock

    def park(self, vm: VmFolder, image: str, member: str | None, shape: Shape | None = None) -> None:
        """Make an instance with keys of its own, and let its init make the VM. Raises VmError.

        A container may be made without a shape, to wait for a job.
        """
        deadline = self._deadline()
        host, caller = KeyPair.make(), KeyPair.make()
        vm.write(VmRecord(caller.private, host.public, ()))
        bridge, instance = self._bridge(member), self._on.names.vm(vm.id)
        address = self._outer_layers.make(instance, image, bridge, member, shape)
        keys = keys_of(
            host, caller, self._settings.processes, bridge.settings(address),
            user_namespaces=self._shared.user_namespaces,
        )  # fmt: skip
        self._outer_layers.await_programs(instance, self._left(deadline))
        bring_keys(self._on.streams, instance, keys, self._left(deadline))

    def attach(self, spec: VmSpec, member: str | None, made: Future[Sequence[Volume]]) -> Sequence[Volume]:
        """Give a VM that waits its shape, network and disks, and return the disks. Raises VmError."""
        deadline = self._deadline()
        instance, resolver = self._on.names.vm(spec.id), self._bridge(member).resolver
        job = job_of(spec, resolver, self._outer_layers.share)
        disks = made.result()
        self._places.grow(spec.id, spec.shape)
        device = self._on.volumes.device
        services = [device(each.name, f"{DISK}{number}") for number, each in enumerate(disks[1:])]
        self._outer_layers.grow(instance, spec.shape, device(disks[0].name, DISK), services)
        bring_job(self._on.streams, instance, job, self._left(deadline))
        return disks

    def _bridge(self, member: str | None) -> Bridge:
        return Bridge.of(self._on.engine, self._settings.network, self._shared.network.allow, member)

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._settings.create_seconds

    def _left(self, deadline: float) -> float:
        return max(deadline - self._clock.monotonic(), _MIN_SECONDS)


_GB = 1 << 30
_OPEN_FILES = 65_536
_LIMITS = {resource.RLIMIT_SIGPENDING: 4096, resource.RLIMIT_MSGQUEUE: 100_000}
_OBJECTS = {"max_inotify_instances": 32}
"""A VM's limits on what the kernel counts for all instances of a member together.

The kernel's defaults suffice for a few VMs.
"""
_TERMINALS = 64
"""The most terminals of a VM: when none is left, its member starts no other instance."""

_RUN = f'import sys; sys.path[:0] = ["{PROGRAMS}"]; from launcher.container_requests import main; main(sys.argv[1])'
_READY = b"ready"


def keys_of(
    host: KeyPair, caller: KeyPair, processes: int, network: dict[str, Any], *, user_namespaces: bool
) -> dict[str, Any]:
    """Return what init needs to make the VM."""
    return {
        "host_key": host.private,
        "authorized_key": caller.public,
        "limits": {**_LIMITS, resource.RLIMIT_NPROC: processes},
        "objects": _OBJECTS,
        "terminals": _TERMINALS,
        "network": network,
        "user_namespaces": user_namespaces,
    }


def job_of(spec: VmSpec, resolver: str, share: str | None) -> dict[str, Any]:
    """Return what a job brings to its VM.

    Names of the file systems that are its disks begin with ``share``. It is None if the engine mounts them.
    """
    largest_file = spec.shape.disk_gb * _GB
    limits = {resource.RLIMIT_NOFILE: _OPEN_FILES, resource.RLIMIT_FSIZE: largest_file, resource.RLIMIT_CORE: 1}
    return {
        "limits": [(kind, most, most) for kind, most in limits.items()],
        "memory_bytes": spec.shape.memory_gb * _GB,
        "network": spec.network,
        "resolver": resolver if spec.network else None,
        "share": share and f"{share}{DISK_DEVICE}",
        "service_shares": [share and f"{share}{SERVICE_DISK}{number}" for number in range(len(spec.services))],
        "services": list(spec.services),
        "containers": spec.containers,
    }


def bring_keys(streams: ExecStreams, instance: str, keys: dict[str, Any], seconds: float) -> None:
    """Bring the keys to an instance's init, and return when it has made the VM. Raises VmError."""
    _tell(streams, instance, "boot", keys, seconds)


def bring_job(streams: ExecStreams, instance: str, job: dict[str, Any], seconds: float) -> None:
    """Bring the job to a VM that has got its disk from the engine; return when it uses it. Raises VmError."""
    _tell(streams, instance, "attach", job, seconds)


def connect_sshd(streams: ExecStreams, instance: str) -> Program:
    """Connect to the VM's sshd. Raises NotFound, EngineError and EngineAway."""
    return streams.start(instance, program_argv("connect"))


def write_out(streams: ExecStreams, instance: str, seconds: float) -> None:
    """Let a VM's member write what is in memory of the disks, so that it is counted. Raises VmError."""
    streams.complete(instance, ["/bin/sh", "-c", f"exec sync -f {DISK}*"], b"", seconds)


def _tell(streams: ExecStreams, instance: str, program: str, content: dict[str, Any], seconds: float) -> None:
    with streams.start(instance, program_argv(program)) as started:
        done = started.complete(marshal.dumps(content), seconds)
        word, _, why = done.output.strip().partition(b" ")
        if word != _READY:
            reason = (why or done.errors).decode(errors="replace").strip() or started.end_reason()
            message = f"{instance} does not {program}: {reason}"
            raise VmError(message)


def program_argv(program: str) -> list[str]:
    """Return the command of a program."""
    return ["/usr/bin/python3", "-I", "-S", "-B", "-c", _RUN, program]
