"""The scheduler: fair shares, and the next job; pure but for loading (engine.md, "The lease pool")."""

from __future__ import annotations

import math
from datetime import timedelta
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from actors.scheduling.capacity import Load
from actors.scheduling.pending_reason import NoRoom, Waiting
from storage import Shape, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from actors.scheduling.capacity import Capacity
    from storage import Clock, Lease, QueuedJob, Storage


_HALF_LIFE = 3600.0
"""Seconds after which an organization's usage counts half."""

USAGE_SECONDS = 4 * _HALF_LIFE
"""Seconds after which usage is not loaded again at a restart."""

_MIN_SECONDS = 60.0
_DECAY = math.log(2) / _HALF_LIFE
_MIN_SHAPE = Shape(1, 1, 1)


@immutable
class _VmInUse:
    """A job's VM, and since when the job has it."""

    organization_id: int
    shape: Shape
    since: float


class FairShare:
    """The VMs in use by organizations, and their recent usage: vCPU seconds that decay with time.

    Instants are monotonic seconds.
    """

    def __init__(self) -> None:
        self._in_use: dict[int, _VmInUse] = {}
        self._loads: dict[int | None, Load] = {}
        self._past: dict[int, tuple[float, float]] = {}

    @property
    def leases(self) -> AbstractSet[int]:
        """The row ids of the jobs' leases."""
        return self._in_use.keys()

    def load(self, organization_id: int | None = None) -> Load:
        """Return the load of the VMs in use: by all jobs, or by an organization's."""
        return self._loads.get(organization_id, Load())

    def grant(self, lease_id: int, organization_id: int, shape: Shape, since: float) -> None:
        """Add a VM that a job uses."""
        self._remove(lease_id)
        self._in_use[lease_id] = _VmInUse(organization_id, shape, since)
        for of in (organization_id, None):
            self._loads[of] = self.load(of).plus(shape)

    def release(self, lease_id: int, now: float) -> None:
        """Remove a VM and count its time as usage. An unknown lease is ignored."""
        vm = self._remove(lease_id)
        if vm is not None:
            self.add_usage(vm.organization_id, vm.shape.cpu, vm.since, now)

    def add_usage(self, organization_id: int, cpu: int, began: float, ended: float) -> None:
        """Count the time of a VM that has ended; 0 if the clock was set back since."""
        began = min(began, ended)
        amount, at = self._past.get(organization_id, (0.0, ended))
        now = max(at, ended)
        self._past[organization_id] = (amount * _decay_after(now - at) + _usage_of(cpu, began, ended, now), now)

    def usage(self, organizations: Iterable[int], now: float) -> dict[int, float]:
        """Return the usage of each of these organizations.

        A VM in use counts for at least a minute, so that grants within one instant take turns.
        """
        usage = {}
        for organization_id in organizations:
            amount, at = self._past.get(organization_id, (0.0, now))
            usage[organization_id] = amount * _decay_after(now - at)
        for vm in self._in_use.values():
            if vm.organization_id in usage:
                began = min(vm.since, now - _MIN_SECONDS)
                usage[vm.organization_id] += _usage_of(vm.shape.cpu, began, now, now)
        return usage

    def next(self, heads: Mapping[int, QueuedJob], now: float) -> QueuedJob:
        """Return the job that should get the next VM, of each organization's next job.

        The least recent usage over weight comes first, then the longest wait.
        """
        usage = self.usage(heads, now)
        return min(heads.values(), key=lambda job: _turn(job, usage[job.organization_id]))

    def _remove(self, lease_id: int) -> _VmInUse | None:
        vm = self._in_use.pop(lease_id, None)
        if vm is not None:
            for of in (vm.organization_id, None):
                self._loads[of] = self.load(of).minus(vm.shape)
        return vm


def _turn(job: QueuedJob, usage: float) -> tuple[float, datetime, int, int]:
    """Return what the next jobs of organizations are compared by: the least gets a VM first."""
    return usage / job.weight, job.scheduled_at, job.position, job.job_id


def _decay_after(seconds: float) -> float:
    return math.exp(-_DECAY * seconds)


def _usage_of(cpu: int, began: float, ended: float, now: float) -> float:
    """Return the vCPU seconds from ``began`` to ``ended``, decayed to ``now``."""
    return cpu * (_decay_after(now - ended) - _decay_after(now - began)) / _DECAY


def load_fair_share(storage: Storage, clock: Clock) -> FairShare:
    """Load the VMs in use and the recent usage of all organizations."""
    fair_share = FairShare()
    for use in storage.queue.past_use(timedelta(seconds=USAGE_SECONDS)):
        began, ended = monotonic(storage, clock, use.started_at), monotonic(storage, clock, use.finished_at)
        fair_share.add_usage(use.organization_id, use.cpu, began, ended)
    for lease in leases_of_jobs(storage).values():
        if lease.organization_id is not None:
            fair_share.grant(lease.id, lease.organization_id, lease.shape, monotonic(storage, clock, lease.started_at))
    return fair_share


def leases_of_jobs(storage: Storage) -> dict[int, Lease]:
    """Return the live leases for jobs, parked ones too, by row id; those of renders are left out."""
    return {lease.id: lease for lease in storage.leases.live() if lease.build_id is None}


def monotonic(storage: Storage, clock: Clock, instant: datetime | None) -> float:
    """Convert an instant of the past, None for now, to seconds of the monotonic clock."""
    return clock.monotonic() - (0.0 if instant is None else storage.timeline.seconds_since(instant))


@immutable
class Decision:
    """The job that gets the next VM, None if none does at present, and why the others wait."""

    job: QueuedJob | None
    waiting: Waiting


def host_full(fair_share: FairShare, host: Capacity) -> Waiting | None:
    """Return the reason if the host has no room for even the smallest VM; None if it has."""
    full = host.shortage(fair_share.load(), _MIN_SHAPE)
    return Waiting(host=NoRoom(None, full)) if full is not None and full.total else None


def schedule_next(
    heads: Iterable[QueuedJob], fair_share: FairShare, host: Capacity, organization: Capacity, now: float
) -> Decision:
    """Choose among the next jobs of the organizations; ``now`` is in monotonic seconds.

    Smaller jobs do not overtake a large one that does not fit, or it would wait for ever.
    """
    if (full_host := host_full(fair_share, host)) is not None:
        return Decision(None, full_host)
    fitting: dict[int, QueuedJob] = {}
    no_room: dict[int, NoRoom] = {}
    for head in heads:
        lack = organization.shortage(fair_share.load(head.organization_id), head.shape)
        if lack is None:
            fitting[head.organization_id] = head
        else:
            no_room[head.organization_id] = NoRoom(head.job_id, lack)
    if not fitting:
        return Decision(None, Waiting(organizations=no_room))
    job = fair_share.next(fitting, now)
    lack = host.shortage(fair_share.load(), job.shape)
    if lack is not None:
        return Decision(None, Waiting(host=NoRoom(job.job_id, lack), organizations=no_room))
    return Decision(job, Waiting(organizations=no_room))


def queue_order(
    queues: Mapping[int, Iterable[QueuedJob]], fair_share: FairShare, now: float, limit: int
) -> list[QueuedJob]:
    """Return the order in which waiting jobs would get VMs from now on, if no other job came.

    Args:
        queues: each organization's waiting jobs, in their order.
        fair_share: the organizations' VMs and usage.
        now: monotonic seconds.
        limit: the most jobs to return.
    """
    usage, left = fair_share.usage(queues, now), {each: iter(queue) for each, queue in queues.items()}
    heads = [(_turn(job, usage[each]), job) for each, queue in left.items() if (job := next(queue, None)) is not None]
    heapify(heads)
    order: list[QueuedJob] = []
    while heads and len(order) < limit:
        _, job = heappop(heads)
        order.append(job)
        organization = job.organization_id
        usage[organization] += _usage_of(job.shape.cpu, now - _MIN_SECONDS, now, now)
        if (following := next(left[organization], None)) is not None:
            heappush(heads, (_turn(following, usage[organization]), following))
    return order
