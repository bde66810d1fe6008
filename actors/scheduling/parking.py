"""The parking of VMs for the lease pool: how many wait, making them, and destroying them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

from actors.scheduling.parked_stock import Demand, ParkedStock
from actors.scheduling.parked_vms import DestroyVm, ParkVm, VmParked, destroy, park
from storage import LeaseState

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.engine_settings import LiveSettings
    from actors.metrics import EngineMetrics
    from actors.scheduling.parked_vms import ParkedConnections
    from actors.vms import Provider
    from storage import Clock, Lease, Storage

__all__ = ["Parking"]


_BEGINNING_SECONDS = 0.03
"""The time in which the command of a job begins, if the job takes a parked VM."""


class _Work(Protocol):
    """Runs a task on a worker thread; the message that it returns comes to the pool."""

    def __call__(self, task: ParkVm | DestroyVm, function: Callable[[], VmParked | None], /) -> None: ...


class Parking:
    """The VMs that wait for a job or are being made for that. For the pool's thread only."""

    def __init__(
        self,
        *,
        storage: Storage,
        provider: Provider,
        connections: ParkedConnections,
        clock: Clock,
        metrics: EngineMetrics,
        live_settings: LiveSettings,
        cores: int,
        memory_is_short: Callable[[], bool],
        work: _Work,
    ) -> None:
        self._storage = storage
        self._provider = provider
        self._connections = connections
        self._clock = clock
        self._metrics = metrics
        self._live_settings = live_settings
        self._cores = cores
        self._memory_is_short = memory_is_short
        self._work = work
        self._stock = ParkedStock()
        self._demand = Demand()

    @property
    def next(self) -> Lease | None:
        """The VM that the next job or render takes; it may still be being made."""
        return self._stock.next

    def take_over(self, lease: Lease) -> None:
        """Keep a VM of an earlier pool that waits; destroy one that it did not finish."""
        if lease.state is LeaseState.PARKED and self._provider.parked(lease.uuid):
            self._stock.adopt(lease)
        else:
            self._destroy(lease)

    def taken(self, lease: Lease) -> None:
        """Note that a job or a render has a lease, of a parked VM or of one that it makes itself."""
        self._stock.remove(lease.id)
        self._demand.note(self._clock.monotonic())

    def forget(self, lease_id: int) -> None:
        """Forget a VM that is gone, if it was one of these."""
        if (lost := self._stock.remove(lease_id)) is not None:
            self._connections.discard(lost.uuid)

    def forget_ended(self) -> None:
        """Forget the VMs whose lease has ended."""
        for gone in self._stock.retain({each.id for each in self._storage.leases.live() if each.job_id is None}):
            self._connections.discard(gone.uuid)

    def parked(self, lease: Lease) -> None:
        """Keep a new parked VM, unless its lease has ended meanwhile, by its owner or with its job."""
        if self._stock.finish(lease) and self._storage.leases.parked(lease.id):
            self.destroy_excess()
            return
        now = self._storage.leases.get(lease.id)
        if now is None or now.state is LeaseState.ENDED:
            self._stock.remove(lease.id)
            self._destroy(lease)

    def failed(self, lease: Lease, why: str) -> bool:
        """End the lease of a VM that could not be made, unless a job has it; tell whether the reason is new."""
        self._storage.leases.end_unclaimed(lease.id)
        return self._stock.fail(lease, why)

    def wake(self) -> None:
        """Let VMs be made again after a failure."""
        self._stock.wake()

    def refill(self) -> float | None:
        """Make a missing VM, one after the other, so that parking leaves the other cores to jobs.

        While half of the VMs are left, it waits until the latest job has begun. Returns the seconds to the next try;
        None if no VM is missing.
        """
        wanted = self._wanted()
        if self._stock.making or not self._stock.lacks(wanted):
            return None
        pause = self._demand.latest + _BEGINNING_SECONDS - self._clock.monotonic()
        if pause > 0 and 2 * self._stock.count >= wanted:
            return pause
        lease = self._storage.leases.reserve_parked(str(uuid.uuid4()), provider=self._provider.name)
        self._connections.expect(lease.uuid)
        self._stock.begin(lease)
        arguments = self._provider, self._connections, self._clock, self._metrics, lease
        self._work(ParkVm(lease), lambda: park(*arguments))
        return None

    def destroy_excess(self) -> None:
        """Destroy the VMs that are more than wanted. No job waits for that."""
        for lease in self._stock.take_oldest(max(0, self._stock.count - self._wanted())):
            self._destroy(lease)

    def _wanted(self) -> int:
        """Return how many VMs should wait: one per core, or as many as jobs lately took at once.

        It is within the caps, and 0 while the host is short of memory.
        """
        if not self._provider.description.parks or self._memory_is_short():
            return 0
        settings, recent = self._live_settings.now.pool, self._demand.peak(self._clock.monotonic())
        return min(max(self._cores, recent), settings.parked, settings.host().vms)

    def _destroy(self, lease: Lease) -> None:
        self._work(DestroyVm(lease), lambda: destroy(self._storage, self._provider, self._connections, lease))
