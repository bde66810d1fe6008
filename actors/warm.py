"""The warm VMs: which there are, which are being made, and which are missing (engine.md, "Leases": the pool)."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

from actors.assignment import spec_of
from actors.vms import VmError
from storage import Shape

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from actors.runtime import Runtime
    from storage import Lease, QueuedJob

__all__ = ["WarmStock", "destroy_warm", "make_warm"]


class WarmStock:
    """Keeps count of the VMs that wait for a job. The lease pool makes, grants and destroys them."""

    def __init__(self) -> None:
        self._ready: list[Lease] = []
        self._making: Counter[str] = Counter()
        self._failing: dict[str, str] = {}
        self._resting: set[str] = set()

    @property
    def making(self) -> int:
        """How many are being made."""
        return self._making.total()

    @property
    def count(self) -> int:
        """How many there are and will be."""
        return len(self._ready) + self.making

    def fitting(self, job: QueuedJob, image: str) -> Lease | None:
        """Return one that a job can have whose disk starts from ``image``."""
        if job.parent_snapshot_job_id is not None:
            return None
        wanted = (image, job.shape, job.network)
        return next((lease for lease in self._ready if (lease.image, lease.shape, lease.network) == wanted), None)

    def missing(self, wanted: Mapping[str, int]) -> str | None:
        """Return the image that lacks most of what is wanted of each, None where there is enough of all.

        An image of which none could be made rests until `wake`.
        """
        there = self._making + Counter(lease.image for lease in self._ready if lease.image is not None)
        lacks = {image: count - there[image] for image, count in wanted.items() if image not in self._resting}
        image = max(lacks, key=lacks.__getitem__, default=None)
        return image if image is not None and lacks[image] > 0 else None

    def wake(self) -> None:
        """Let what could not be made be tried again."""
        self._resting.clear()

    def begun(self, image: str) -> None:
        """Count one that is being made."""
        self._making[image] += 1

    def made(self, lease: Lease) -> None:
        """Count one that was being made among those that wait."""
        image = lease.image or ""
        self._making[image] -= 1
        self._failing.pop(image, None)
        self._ready.append(lease)

    def failed(self, image: str, why: str) -> bool:
        """Count one that could not be made; tell whether that is news."""
        self._making[image] -= 1
        self._resting.add(image)
        known = self._failing.get(image)
        self._failing[image] = why
        return known != why

    def adopt(self, lease: Lease) -> None:
        """Count one that an earlier pool made."""
        self._ready.append(lease)

    def remove(self, lease_id: int) -> None:
        """Forget one that is not there, or waits no longer."""
        self._ready = [lease for lease in self._ready if lease.id != lease_id]

    def retain(self, lease_ids: Collection[int]) -> None:
        """Forget all but these."""
        self._ready = [lease for lease in self._ready if lease.id in lease_ids]

    def unwanted(self, images: Collection[str]) -> list[Lease]:
        """Return those of other images than these."""
        return [lease for lease in self._ready if lease.image not in images]

    def give_up(self, count: int) -> list[Lease]:
        """Forget and return the oldest ``count`` of those that wait, or all."""
        gone, self._ready = self._ready[:count], self._ready[count:]
        return gone


def make_warm(runtime: Runtime, image: str) -> Lease:
    """Make a VM of an image for no job yet. Raises VmError, and leaves no row behind where there is no such image."""
    runtime.images.path(image)
    lease = runtime.storage.leases.reserve_warm(
        str(uuid.uuid4()), provider=runtime.provider.name, image=image, shape=Shape()
    )
    try:
        with runtime.observations.making():
            runtime.provider.create(spec_of(lease))
    except VmError:
        runtime.storage.leases.end(lease.id)
        raise
    return lease


def destroy_warm(runtime: Runtime, lease: Lease) -> None:
    """End a VM that no job has. Raises VmError where that fails; the lease is over all the same."""
    try:
        runtime.provider.destroy(lease.uuid)
    finally:
        runtime.storage.leases.end(lease.id)
