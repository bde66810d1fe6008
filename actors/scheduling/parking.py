"""Parked VMs of the lease pool: how many are wanted, and making and destroying them."""

from __future__ import annotations

import uuid
from collections import defaultdict, deque
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Protocol

from actors.scheduling.parked_vms import DestroyVm, ParkVm, VmParked, destroy, park
from actors.vms import ProviderAway
from storage import LeaseState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actors.parts import VmParts
    from storage import Lease


_BURST_SECONDS = 2.0
_MEMORY_SECONDS = 600.0
_BEGINNING_SECONDS = 0.03
"""Seconds from a lease to the start of its command, if the job takes a parked VM."""


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


class _Work(Protocol):
    """Runs a task on a worker thread; the message that it returns comes to the pool."""

    def __call__(self, task: ParkVm | DestroyVm, function: Callable[[], VmParked | None], /) -> None: ...


class Parking:
    """The VMs that wait for a job or are being made for that. For the pool's thread only."""

    def __init__(self, parts: VmParts, *, cores: int, memory_is_short: Callable[[], bool], work: _Work) -> None:
        self._storage = parts.storage
        self._providers = parts.providers
        self._choice = parts.choice
        self._connections = parts.connections
        self._clock = parts.clock
        self._metrics = parts.metrics
        self._live_settings = parts.live_settings
        self._cores = cores
        self._memory_is_short = memory_is_short
        self._work = work
        self._begins = parts.clock.monotonic() + parts.timings.first_parked
        self._stocks: defaultdict[str, ParkedStock] = defaultdict(ParkedStock)
        self._demands: defaultdict[str, Demand] = defaultdict(Demand)
        self._away: set[str] = set()

    def next(self, provider: str, member: str | None = None) -> Lease | None:
        """Return the VM that the next job or render at a provider takes; it may still be being made.

        If a ``member`` is given, only one that is there will do.
        """
        return self._stocks[provider].next(member)

    def take_over(self, lease: Lease) -> None:
        """Keep a VM of an earlier pool that waits; destroy one that it did not finish."""
        if lease.state is LeaseState.PARKED and self._still_waits(lease):
            self._stocks[lease.provider].adopt(lease)
        else:
            self._storage.leases.end(lease.id)  # now, before the API answers; the VM is destroyed later
            self._destroy(lease)

    def _still_waits(self, lease: Lease) -> bool:
        """Tell whether a parked VM is there. While its provider is away, assume so: its job finds out."""
        if lease.provider in self._away:
            return True
        try:
            return self._providers.of(lease).parked(lease.uuid)
        except ProviderAway:
            self._away.add(lease.provider)  # to ask for each VM would take seconds each
            return True

    def taken(self, lease: Lease) -> None:
        """Note that a job or a render has a lease, of a parked VM or of one that it makes itself."""
        self._stocks[lease.provider].remove(lease.id)
        self._demands[lease.provider].note(self._clock.monotonic())

    def forget(self, lease_id: int) -> None:
        """Forget a VM that is gone, if it was one of these."""
        for stock in self._stocks.values():
            if (lost := stock.remove(lease_id)) is not None:
                self._connections.discard(lost.uuid)

    def forget_ended(self) -> None:
        """Forget the VMs whose lease has ended."""
        idle = {each.id for each in self._storage.leases.live() if each.job_id is None and not each.is_fork}
        for stock in self._stocks.values():
            for gone in stock.retain(idle):
                self._connections.discard(gone.uuid)

    def parked(self, lease: Lease, member: str | None) -> None:
        """Keep a new parked VM, unless its lease has ended meanwhile, by its owner or with its job."""
        stock = self._stocks[lease.provider]
        if stock.finish(replace(lease, member=member)) and self._storage.leases.parked(lease.id, member):
            self.destroy_excess()
            return
        now = self._storage.leases.get(lease.id)
        if now is None or now.state is LeaseState.ENDED:
            stock.remove(lease.id)
            self._destroy(lease)

    def failed(self, lease: Lease, why: str) -> bool:
        """End the lease of a VM that could not be made, unless a job has it; tell whether the reason is new."""
        self._storage.leases.end_unclaimed(lease.id)
        return self._stocks[lease.provider].fail(lease, why)

    def wake(self) -> None:
        """Let VMs be made again after a failure."""
        for stock in self._stocks.values():
            stock.wake()

    def refill(self) -> float | None:
        """Make a missing VM, one after the other, so that parking leaves the other cores to jobs.

        It waits for the first jobs after a start to begin. While at least half of a provider's VMs are left, it also
        waits for the latest job to begin. Returns the seconds to the next try; None if no VM is missing.
        """
        if any(stock.making for stock in self._stocks.values()):
            return None
        now, soonest = self._clock.monotonic(), None
        settled = max(self._begins, self._latest + _BEGINNING_SECONDS)
        for provider, wanted in self._wanted().items():
            stock = self._stocks[provider]
            if not stock.lacks(wanted):
                continue
            pause = (self._begins if 2 * stock.count < wanted else settled) - now
            if pause <= 0:
                self._park(provider)
                return None
            soonest = pause if soonest is None else min(soonest, pause)
        return soonest

    def _park(self, provider: str) -> None:
        lease = self._storage.leases.reserve_parked(str(uuid.uuid4()), provider=provider)
        self._connections.expect(lease.uuid)
        self._stocks[provider].begin(lease)
        arguments = self._providers.of(lease), self._connections, self._clock, self._metrics, lease
        self._work(ParkVm(lease), lambda: park(*arguments))

    def destroy_excess(self) -> None:
        """Destroy the VMs beyond the wanted number. No job waits for that."""
        wanted = self._wanted()
        for provider, stock in self._stocks.items():
            for lease in stock.take_oldest(max(0, stock.count - wanted.get(provider, 0))):
                self._destroy(lease)

    @property
    def _latest(self) -> float:
        """The instant at which a job last took a VM."""
        return max((each.latest for each in self._demands.values()), default=-inf)

    def _wanted(self) -> dict[str, int]:
        """Return how many VMs of each provider should wait: as many as jobs lately took at once.

        The default provider gets at least one per core. The sum is within the caps; none while memory is short.
        """
        if self._memory_is_short():
            return {}
        now, host = self._clock.monotonic(), self._choice.host
        wanted = {name: demand.peak(now) for name, demand in self._demands.items()}
        wanted[host] = max(self._cores, wanted.get(host, 0))
        parking = {name: count for name, count in wanted.items() if self._providers.named(name).description.parks}
        settings = self._live_settings.now.pool
        most = settings.host(self._providers.named(host).size()).vms
        return divide(min(settings.parked, most), parking)

    def _destroy(self, lease: Lease) -> None:
        self._work(
            DestroyVm(lease), lambda: destroy(self._storage, self._providers.of(lease), self._connections, lease)
        )
