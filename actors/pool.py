"""The lease pool: who gets the next VM, and how many there may be (engine.md, "Actors" and "Leases")."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from actors.attempt import spec_of
from actors.messages import Demand, Drain, Granted, Recount, Refill, Released, TaskDone, TaskFailed
from actors.runtime import Runtime, post
from actors.supervision import Supervised
from actors.vms import VmError
from storage import JobState, Lease, LeaseState, QueuedJob, Shape

__all__ = ["LeasePool"]

_REFILL_AGAIN = 10.0


@dataclass(frozen=True, slots=True)
class _Held:
    """What a lease that a job holds takes from the host."""

    organization_id: int
    shape: Shape


class LeasePool(Supervised):
    """Grants VMs to scheduled jobs, fairly and within the host's capacity, and keeps some warm.

    The queue is the storage: jobs in state ``scheduled``. A waiting job therefore costs neither thread nor memory here.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.timer, runtime.crew.root)
        self._runtime = runtime
        self._capacity = runtime.pool.capacity()
        self._held: dict[int, _Held] = {}
        self._warm: list[Lease] = []
        self._warming = 0
        self._draining = False

    def begin(self) -> None:
        """Take over what an earlier pool left: leases that jobs hold, and warm VMs that still live."""
        self._recount()
        for lease in self._runtime.storage.leases.live():
            if lease.job_id is not None:
                self._tell_again(lease.job_id, lease)
            elif lease.state is LeaseState.WARM and self._runtime.provider.alive(lease.uuid):
                self._warm.append(lease)
            else:
                self._destroy(lease)
        self._refill()
        self._grant()

    def handle(self, message: object) -> None:
        """Grant, take back, refill."""
        match message:
            case Demand():
                self._grant()
            case Released(lease_id):
                self._held.pop(lease_id, None)
                self._grant()
            case Recount():
                self._recount()
                self._grant()
            case Refill():
                self._refill()
            case Drain():
                self._draining = True
                self._runtime.board.waiting_for = "waiting for a VM: the service is draining"
            case TaskDone("warm", Lease() as lease):
                self._runtime.storage.leases.warmed(lease.id)
                self._warming -= 1
                self._warm.append(lease)
            case TaskFailed("warm", error):
                self._warming -= 1
                self.log.warning("cannot make a warm VM: %s", error)
                self._runtime.timer.tell_after(_REFILL_AGAIN, self.actor_ref, Refill())
            case TaskFailed("destroy", error):
                self.log.warning("cannot destroy a warm VM, the reaper will: %s", error)

    def _recount(self) -> None:
        """Read which leases jobs hold, whatever news of them was lost on the way to a pool that died."""
        self._held = {
            lease.id: _Held(lease.organization_id, lease.shape)
            for lease in self._runtime.storage.leases.live()
            if lease.organization_id is not None
        }

    def _tell_again(self, job_id: int, lease: Lease) -> None:
        """Tell of a grant that may have been told to nobody; to know it already does no harm."""
        job = self._runtime.storage.jobs.get(job_id)
        if job is not None and job.state is JobState.ASSIGNED:
            post(self._runtime.crew.root, Granted(job.build_id, lease))

    def _grant(self) -> None:
        """Give VMs to the queue's first jobs for as long as the host has room for the very next of them.

        A large job is not overtaken by smaller ones behind it: it would wait for ever.
        """
        while not self._draining:
            at_cap = self._organizations_at_cap()
            queued = self._runtime.storage.jobs.next_scheduled(exclude_orgs=at_cap, limit=1)
            short_of = self._lacks_room(queued[0].shape if queued else Shape())
            if short_of is None and not queued and at_cap:
                short_of = f"its organization has all {self._capacity.vms_per_organization} that it may have"
            self._runtime.board.waiting_for = f"waiting for a VM: {short_of}" if short_of else "waiting for a VM"
            if short_of or not queued:
                return
            self._grant_to(queued[0])

    def _grant_to(self, queued: QueuedJob) -> None:
        image = self._runtime.images.resolve(queued.image)
        warm = self._fitting_warm(queued, image)
        lease = self._runtime.storage.leases.assign(
            queued.job_id,
            provider=self._runtime.provider.name,
            image=image,
            shape=queued.shape,
            network=queued.network,
            warm_lease_id=warm.id if warm else None,
            lease_uuid=warm.uuid if warm else str(uuid.uuid4()),
        )
        if lease is None:
            self._look_after_warm()
            return
        if warm:
            self._warm.remove(warm)
            self._refill()
        self._held[lease.id] = _Held(queued.organization_id, queued.shape)
        post(self._runtime.crew.root, Granted(queued.build_id, lease))

    def _organizations_at_cap(self) -> set[int]:
        counts: dict[int, int] = {}
        for held in self._held.values():
            counts[held.organization_id] = counts.get(held.organization_id, 0) + 1
        return {organization for organization, vms in counts.items() if vms >= self._capacity.vms_per_organization}

    def _lacks_room(self, shape: Shape) -> str | None:
        """Say what the host is short of for one more VM of this shape. An empty host has room for any shape."""
        if not self._held:
            return None
        vms = len(self._held)
        if vms >= self._capacity.vms:
            return f"host is full ({vms} of {self._capacity.vms})"
        for what, cap, taken, wanted in (
            ("vCPUs", self._capacity.cpu, sum(held.shape.cpu for held in self._held.values()), shape.cpu),
            (
                "GB of memory",
                self._capacity.memory_gb,
                sum(h.shape.memory_gb for h in self._held.values()),
                shape.memory_gb,
            ),
            (
                "GB of disk",
                self._capacity.disk_gb,
                sum(held.shape.disk_gb for held in self._held.values()),
                shape.disk_gb,
            ),
        ):
            if cap and taken + wanted > cap:
                return f"{taken} of {cap} {what} are taken, it needs {wanted}"
        return None

    def _fitting_warm(self, queued: QueuedJob, image: str) -> Lease | None:
        if queued.parent_snapshot_job_id is not None:
            return None
        wanted = (image, queued.shape, queued.network)
        return next((warm for warm in self._warm if (warm.image, warm.shape, warm.network) == wanted), None)

    def _look_after_warm(self) -> None:
        """Forget warm VMs that the owner ended."""
        waiting = {lease.id for lease in self._runtime.storage.leases.live() if lease.state is LeaseState.WARM}
        self._warm = [lease for lease in self._warm if lease.id in waiting]
        self._refill()

    def _refill(self) -> None:
        """Start to make as many warm VMs of the default image as are missing."""
        while not self._draining and len(self._warm) + self._warming < self._runtime.pool.warm:
            self._warming += 1
            self.work("warm", self._make_warm)

    def _make_warm(self) -> Lease:
        runtime = self._runtime
        image = runtime.images.resolve(None)
        lease = runtime.storage.leases.reserve_warm(
            str(uuid.uuid4()), provider=runtime.provider.name, image=image, shape=Shape()
        )
        try:
            runtime.provider.create(spec_of(lease))
        except VmError:
            runtime.storage.leases.end(lease.id)
            raise
        return lease

    def _destroy(self, lease: Lease) -> None:
        def destroy() -> None:
            try:
                self._runtime.provider.destroy(lease.uuid)
            finally:
                self._runtime.storage.leases.end(lease.id)

        self.work("destroy", destroy)
