"""The instances of VMs: made small, at an address of their own, and grown to a job's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.incus.instances import DISK_DEVICE
from actors.vms.incus.refusals import EngineError, StartFailed
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.incus.instances import Instances
    from actors.vms.incus.network import Bridge
    from storage import Shape

__all__ = ["OuterLayers"]

_OVERHEAD_MB = 256
"""The memory that an instance has beyond its job's: for the outer layer, and the files that it reads."""

_PARKED = {"limits.cpu.allowance": "100ms/100ms", "limits.memory": f"{_OVERHEAD_MB}MiB"}
_ADDRESSES = 8
_TAKEN = "already"


class OuterLayers:
    """The outer layers of VMs, each an instance."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    def make(self, instance: str, base: str, bridge: Bridge, member: str | None) -> str:
        """Make an instance at a random address, without a job's disk; return the address. Raises VmError."""
        for left in reversed(range(_ADDRESSES)):
            address = bridge.address()
            try:
                self._instances.make(instance, base, _PARKED, {"eth0": bridge.device(address)}, member)
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
        limits = {
            "limits.cpu.allowance": f"{shape.cpu * 100}ms/100ms",
            "limits.memory": f"{shape.memory_gb * 1024 + _OVERHEAD_MB}MiB",
        }
        self._instances.change(instance, limits, {DISK_DEVICE: disk})

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
