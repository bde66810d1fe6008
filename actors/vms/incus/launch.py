"""Start the instances of VMs, and give them their jobs' parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.host.vm_folder import KeyPair, VmRecord
from actors.vms.incus import programs
from actors.vms.incus.network import Bridge
from actors.vms.launcher.words import DISK

if TYPE_CHECKING:
    from concurrent.futures import Future

    from actors.vms.host.vm_folder import VmFolder
    from actors.vms.incus.images import EngineParts
    from actors.vms.incus.outer_layers import OuterLayers
    from actors.vms.incus.places import Places
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
        keys = programs.keys_of(
            host, caller, self._settings.processes, bridge.settings(address),
            user_namespaces=self._shared.user_namespaces,
        )  # fmt: skip
        self._outer_layers.await_programs(instance, self._left(deadline))
        programs.boot(self._on.streams, instance, keys, self._left(deadline))

    def attach(self, spec: VmSpec, member: str | None, made: Future[Volume]) -> Volume:
        """Give a VM that waits its shape, network and disk, and return the disk. Raises VmError."""
        deadline = self._deadline()
        instance, resolver = self._on.names.vm(spec.id), self._bridge(member).resolver
        job = programs.job_of(spec, resolver, self._outer_layers.share)
        disk = made.result()
        self._places.grow(spec.id, spec.shape)
        self._outer_layers.grow(instance, spec.shape, self._on.volumes.device(disk.name, DISK))
        programs.attach(self._on.streams, instance, job, self._left(deadline))
        return disk

    def _bridge(self, member: str | None) -> Bridge:
        return Bridge.of(self._on.engine, self._settings.network, self._shared.network.allow, member)

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._settings.create_seconds

    def _left(self, deadline: float) -> float:
        return max(deadline - self._clock.monotonic(), _MIN_SECONDS)
