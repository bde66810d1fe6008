"""The stock of warm VMs: ready, being made, and missing (engine.md, "Leases": the pool)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from storage import Lease, QueuedJob

__all__ = ["WarmStock"]


class WarmStock:
    """Counts the VMs that wait for a job. The lease pool makes, grants and destroys them."""

    def __init__(self) -> None:
        self._ready: list[Lease] = []
        self._making: Counter[str] = Counter()
        self._failing: dict[str, str] = {}
        self._backing_off: set[str] = set()

    @property
    def making(self) -> int:
        """The number of VMs being made."""
        return self._making.total()

    @property
    def count(self) -> int:
        """The number of VMs that are ready or being made."""
        return len(self._ready) + self.making

    def fitting(self, job: QueuedJob, image: str) -> Lease | None:
        """Return a ready VM that fits a job whose disk starts from ``image``, or None."""
        if job.parent_snapshot_job_id is not None:
            return None
        wanted = (image, job.shape, job.network)
        return next((lease for lease in self._ready if (lease.image, lease.shape, lease.network) == wanted), None)

    def missing(self, wanted: Mapping[str, int]) -> str | None:
        """Return the image that lacks the most of its wanted VMs; None if there are enough of all.

        An image of which no VM could be made is left out until `wake`.
        """
        there = self._making + Counter(lease.image for lease in self._ready if lease.image is not None)
        lacks = {image: count - there[image] for image, count in wanted.items() if image not in self._backing_off}
        image = max(lacks, key=lacks.__getitem__, default=None)
        return image if image is not None and lacks[image] > 0 else None

    def wake(self) -> None:
        """Let failed images be tried again."""
        self._backing_off.clear()

    def begun(self, image: str) -> None:
        """Count a VM that is being made."""
        self._making[image] += 1

    def made(self, lease: Lease) -> None:
        """Move a VM from those being made to the ready ones."""
        image = lease.image or ""
        self._making[image] -= 1
        self._failing.pop(image, None)
        self._ready.append(lease)

    def failed(self, image: str, why: str) -> bool:
        """Count a VM that could not be made; tell whether the reason is new."""
        self._making[image] -= 1
        self._backing_off.add(image)
        known = self._failing.get(image)
        self._failing[image] = why
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

    def unwanted(self, images: Collection[str]) -> list[Lease]:
        """Return the ready VMs of other images than these."""
        return [lease for lease in self._ready if lease.image not in images]

    def take_oldest(self, count: int) -> list[Lease]:
        """Remove and return the oldest ``count`` ready VMs, or all."""
        gone, self._ready = self._ready[:count], self._ready[count:]
        return gone
