"""The instances of VMs: made at an address of their own, containers small, and grown to a job's shape."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from actors.vms.incus.instance_kinds import DISK_DEVICE
from actors.vms.incus.refusals import EngineError, StartFailed
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.incus.instance_kinds import InstanceKind
    from actors.vms.incus.instances import Instances
    from actors.vms.incus.network import Bridge
    from actors.vms.incus.outer_images import OuterImages
    from storage import Shape

_PAUSE_SECONDS = 0.1
_ADDRESSES = 8
_TAKEN = "already"


class OuterLayers:
    """The outer layers of VMs, each an instance."""

    def __init__(self, instances: Instances, image: OuterImages, kind: InstanceKind) -> None:
        self._instances = instances
        self._image = image
        self._kind = kind

    @property
    def share(self) -> str | None:
        """The name by which an instance mounts its disk itself; None if the engine mounts it."""
        return self._kind.share

    def image(self) -> str:
        """Return the image of new instances, which may first have to be published. Raises VmError."""
        self._instances.check(self._kind)
        return self._image.alias()

    def make(self, instance: str, image: str, bridge: Bridge, member: str | None, shape: Shape | None) -> str:
        """Make an instance at a random address, without a job's disk; return the address.

        A container may be made without a shape, to wait for a job. Raises VmError.
        """
        limits = self._kind.limits(shape)
        for left in reversed(range(_ADDRESSES)):
            address = bridge.address()
            try:
                self._instances.make(instance, image, limits, {"eth0": bridge.device(address)}, member, self._kind)
            except EngineError as error:
                self._instances.remove(instance)
                self._check_name(instance, error)
                if not left or not _is_of_address(error):
                    raise
            else:
                return address
        raise AssertionError

    def grow(self, instance: str, shape: Shape, disk: Mapping[str, str]) -> None:
        """Give an instance a job's shape, and the device that is its disk."""
        device = {**disk, **self._kind.disk}
        self._instances.change(instance, self._kind.limits(shape), {DISK_DEVICE: device})

    def await_programs(self, instance: str, seconds: float) -> None:
        """Wait until programs can be run in an instance: in a container at once. Raises VmError.

        Each pause is three times as long as the look before it, which takes the member's time from what boots there.
        """
        end = time.monotonic() + seconds
        looked = time.monotonic()
        while self._kind.is_machine and not self._instances.runs_programs(instance):
            now = time.monotonic()
            if now > end:
                message = f"the machine {instance} did not start the engine's agent within {seconds:.0f} s"
                raise VmError(message)
            time.sleep(max(_PAUSE_SECONDS, 3 * (now - looked)))
            looked = time.monotonic()

    def _check_name(self, instance: str, cause: EngineError) -> None:
        """Raise VmError if somebody else has an instance of this name."""
        if self._instances.find(instance) is not None:
            message = (
                f"the project has an instance {instance} that is not this service's: rename it, or set incus.prefix"
            )
            raise VmError(message) from cause


def _is_of_address(error: EngineError) -> bool:
    """Tell whether an instance was refused because another one has its address."""
    if isinstance(error, StartFailed):
        return False
    text = str(error).lower()
    return "address" in text and _TAKEN in text
