"""The VM that a local run parks before its engine is there."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from actors import vms
from actors.scheduling import ParkedConnections
from actors.vms import USUAL_WEIGHT, VmError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from actors.vms import Provider
    from storage import Clock, Lease, Shape, Storage


class FirstVm:
    """A parked VM for the render, then another for the first job; without a render the first is the job's.

    ``parking`` parks and connects; it keeps the order of calls. The calls are for one thread.
    """

    def __init__(self, storage: Storage, provider: Provider, clock: Clock, parking: Executor) -> None:
        """Begin to park."""
        self.connections = ParkedConnections()
        self._storage = storage
        self._provider = provider
        self._clock = clock
        self._parking = parking
        self._parked: Future[Lease | None] | None = self._begin()

    def parked(self) -> Future[Lease | None]:
        """Return the VM as it is being parked, another if the last is claimed; None if none can be parked."""
        if self._parked is None:
            self._parked = self._begin()
        return self._parked

    def claim(self, image: str, shape: Shape) -> Lease | None:
        """Claim the VM for a render; None if there is none."""
        if self._parked is None:
            return None
        parked, self._parked = self._parked.result(), None
        return None if parked is None else self._storage.leases.assign_preview(parked.id, image, shape)

    def _begin(self) -> Future[Lease | None]:
        """Park a VM, and connect to it once others know that it is parked."""
        parked = self._parking.submit(self._park)
        self._parking.submit(self._connect, parked)
        return parked

    def _park(self) -> Lease | None:
        """Park a VM; return its lease, None if no VM is parked."""
        provider = self._provider
        if not provider.description.parks:
            return None
        lease = self._storage.leases.reserve_parked(str(uuid.uuid4()), provider=provider.name)
        self.connections.expect(lease.uuid)
        provider.weigh(lease.uuid, USUAL_WEIGHT)
        try:
            provider.park(lease.uuid)
        except (VmError, OSError):  # the engine reports it if it cannot park one either
            self.connections.discard(lease.uuid)
            self._storage.leases.end_unclaimed(lease.id)
            return None
        self._storage.leases.parked(lease.id, provider.member(lease.uuid))
        return lease

    def _connect(self, parked: Future[Lease | None]) -> None:
        """Connect to a parked VM; if that fails, its render or job tries again."""
        lease = parked.result()
        if lease is None:
            return
        try:
            self.connections.add(lease.uuid, vms.Connection(self._provider.connect(lease.uuid), self._clock))
        except VmError:
            self.connections.discard(lease.uuid)
