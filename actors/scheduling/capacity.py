"""Caps on VMs, and whether one more VM fits. Pure (engine.md, "The lease pool")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import Shape

_UNITS = {"vms": "VMs", "cpu": "vCPUs", "memory_gb": "GB of memory", "disk_gb": "GB of disk"}


@immutable
class Load:
    """The sum of some VMs: their number, vCPUs, GB of memory and GB of disk."""

    vms: int = 0
    cpu: int = 0
    memory_gb: int = 0
    disk_gb: int = 0

    @classmethod
    def of(cls, shapes: Iterable[Shape]) -> Load:
        """Return the load of VMs of these shapes."""
        return cls().plus(*shapes)

    def plus(self, *shapes: Shape) -> Load:
        """Return this load plus that of VMs of these shapes."""
        return Load(
            self.vms + len(shapes),
            self.cpu + sum(shape.cpu for shape in shapes),
            self.memory_gb + sum(shape.memory_gb for shape in shapes),
            self.disk_gb + sum(shape.disk_gb for shape in shapes),
        )

    def minus(self, shape: Shape) -> Load:
        """Return this load without one of its VMs."""
        return Load(
            self.vms - 1,
            self.cpu - shape.cpu,
            self.memory_gb - shape.memory_gb,
            self.disk_gb - shape.disk_gb,
        )


@immutable
class Shortage:
    """A cap that one more VM would exceed: ``taken`` of ``cap`` are in use, and it needs ``wanted`` more."""

    of: str
    taken: int
    cap: int
    wanted: int

    @property
    def total(self) -> bool:
        """True if not even the smallest VM fits, because the number of VMs is at its cap."""
        return self.of == "vms"

    def __str__(self) -> str:
        """Return the figures, as in "4 of 4 VMs"."""
        return f"{self.taken} of {self.cap} {_UNITS[self.of]}"


@immutable
class Capacity:
    """Caps on the sum of VMs. 0 is no cap."""

    vms: int = 0
    cpu: int = 0
    memory_gb: int = 0
    disk_gb: int = 0

    def shortage(self, load: Load, shape: Shape) -> Shortage | None:
        """Return what is short for a VM of this shape beside this load; None if it fits.

        With no other VM, any shape fits: otherwise a job larger than a cap would wait for ever.
        """
        if not load.vms:
            return None
        after = load.plus(shape)
        for of in _UNITS:
            cap, taken, wanted = getattr(self, of), getattr(load, of), getattr(after, of)
            if cap and wanted > cap:
                return Shortage(of, taken, cap, wanted - taken)
        return None
