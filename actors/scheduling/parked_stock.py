"""The stock of parked VMs: those that wait for a job, and how many should (engine.md, "Parked VMs")."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from storage import Lease

_BURST_SECONDS = 2.0
_MEMORY_SECONDS = 600.0


def divide(most: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide ``most`` VMs in equal parts, but give nobody more than it wants."""
    parts = {}
    for served, name in enumerate(sorted(wanted, key=wanted.__getitem__)):
        parts[name] = min(wanted[name], most // (len(wanted) - served))
        most -= parts[name]
    return parts


class Demand:
    """The most VMs that jobs took within 2 seconds, of late. Instants are monotonic seconds."""

    def __init__(self) -> None:
        self._taken: deque[float] = deque()
        self._bursts: deque[tuple[float, int]] = deque()  # a burst goes when a later one is as large

    @property
    def latest(self) -> float:
        """The instant at which a job last took a VM."""
        return self._taken[-1] if self._taken else -inf

    def note(self, now: float) -> None:
        """Note that a job takes a VM."""
        self._taken.append(now)
        while self._taken[0] < now - _BURST_SECONDS:
            self._taken.popleft()
        while self._bursts and self._bursts[-1][1] <= len(self._taken):
            self._bursts.pop()
        self._bursts.append((now, len(self._taken)))

    def peak(self, now: float) -> int:
        """Return the size of the largest burst of the last ten minutes."""
        while self._bursts and self._bursts[0][0] <= now - _MEMORY_SECONDS:
            self._bursts.popleft()
        return self._bursts[0][1] if self._bursts else 0


class ParkedStock:
    """The VMs that wait for a job, or are being made for that.

    The lease pool makes, grants and destroys them.
    """

    def __init__(self) -> None:
        self._ready: list[Lease] = []
        self._making: dict[int, Lease] = {}
        self._failing: str | None = None
        self._backing_off = False

    @property
    def making(self) -> int:
        """The number of VMs being made that no job has taken."""
        return len(self._making)

    @property
    def count(self) -> int:
        """The number of VMs that are ready or being made."""
        return len(self._ready) + self.making

    def next(self, member: str | None = None) -> Lease | None:
        """Return the VM that the next job takes, whatever its image and shape: the one that is ready first.

        If its disk is a copy of one on a ``member``, only a VM there will do.
        """
        if member is not None:
            return next((lease for lease in self._ready if lease.member == member), None)
        return next(iter((*self._ready, *self._making.values())), None)

    def lacks(self, wanted: int) -> bool:
        """Tell whether more VMs are to be made; not after a failure, until `wake`."""
        return not self._backing_off and self.count < wanted

    def wake(self) -> None:
        """Let VMs be made again after a failure."""
        self._backing_off = False

    def begin(self, lease: Lease) -> None:
        """Add a VM that is being made."""
        self._making[lease.id] = lease

    def finish(self, lease: Lease) -> bool:
        """Note that a VM was made; tell whether it waits, because no job has taken it meanwhile."""
        self._failing = None
        if self._making.pop(lease.id, None) is None:
            return False
        self._ready.append(lease)
        return True

    def fail(self, lease: Lease, why: str) -> bool:
        """Remove a VM that could not be made; tell whether the reason is new.

        If a job has taken it, that is no reason not to make others: the job may have been canceled.
        """
        if self._making.pop(lease.id, None) is None:
            return False
        self._backing_off = True
        known, self._failing = self._failing, why
        return known != why

    def adopt(self, lease: Lease) -> None:
        """Add a ready VM that an earlier pool made."""
        self._ready.append(lease)

    def remove(self, lease_id: int) -> Lease | None:
        """Remove and return a VM that a job has taken, or that is gone; None if it is unknown."""
        return next(iter(self._remove(lambda lease: lease.id == lease_id)), None)

    def retain(self, lease_ids: Collection[int]) -> list[Lease]:
        """Keep only the VMs of these leases; return the others."""
        return self._remove(lambda lease: lease.id not in lease_ids)

    def take_oldest(self, count: int) -> list[Lease]:
        """Remove and return the oldest ``count`` ready VMs, or all."""
        gone, self._ready = self._ready[:count], self._ready[count:]
        return gone

    def _remove(self, matches: Callable[[Lease], bool]) -> list[Lease]:
        gone = [lease for lease in (*self._ready, *self._making.values()) if matches(lease)]
        self._ready = [lease for lease in self._ready if not matches(lease)]
        for lease in gone:
            self._making.pop(lease.id, None)
        return gone
