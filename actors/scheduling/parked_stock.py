"""The stock of parked VMs: ready, being made, and missing (engine.md, "Parked VMs")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage import Lease

__all__ = ["ParkedStock"]


class ParkedStock:
    """Counts the VMs that wait for a job. The lease pool makes, grants and destroys them."""

    def __init__(self) -> None:
        self._ready: list[Lease] = []
        self._failing: str | None = None
        self._backing_off = False
        self.making = 0
        """The number of VMs being made."""

    @property
    def count(self) -> int:
        """The number of VMs that are ready or being made."""
        return len(self._ready) + self.making

    @property
    def oldest(self) -> Lease | None:
        """The VM that the next job takes, whatever its image, disk and shape."""
        return self._ready[0] if self._ready else None

    def lacks(self, wanted: int) -> bool:
        """Tell whether more VMs are to be made; not after a failure, until `wake`."""
        return not self._backing_off and self.count < wanted

    def wake(self) -> None:
        """Let VMs be made again after a failure."""
        self._backing_off = False

    def begun(self) -> None:
        """Count a VM that is being made."""
        self.making += 1

    def made(self, lease: Lease) -> None:
        """Move a VM from those being made to the ready ones."""
        self.making -= 1
        self._failing = None
        self._ready.append(lease)

    def failed(self, why: str) -> bool:
        """Count a VM that could not be made; tell whether the reason is new."""
        self.making -= 1
        self._backing_off = True
        known, self._failing = self._failing, why
        return known != why

    def adopt(self, lease: Lease) -> None:
        """Add a ready VM that an earlier pool made."""
        self._ready.append(lease)

    def remove(self, lease_id: int) -> None:
        """Remove a VM that is gone or no longer waits."""
        self._ready = [lease for lease in self._ready if lease.id != lease_id]

    def retain(self, lease_ids: Collection[int]) -> None:
        """Keep only the ready VMs of these leases."""
        self._ready = [lease for lease in self._ready if lease.id in lease_ids]

    def take_oldest(self, count: int) -> list[Lease]:
        """Remove and return the oldest ``count`` ready VMs, or all."""
        gone, self._ready = self._ready[:count], self._ready[count:]
        return gone
