"""The scheduler: picks the job that gets the next VM. Pure (engine.md, "The lease pool")."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors.scheduling.pending_reason import NoRoom, Waiting
from storage import Shape, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.scheduling.capacity import Capacity
    from actors.scheduling.fairness import FairShare
    from storage import QueuedJob

_MIN_SHAPE = Shape(1, 1, 1)


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
        fair_share: the organizations' VMs and usage; changed by this call.
        now: monotonic seconds.
        limit: the most jobs to return.
    """
    left = {organization: deque(queue) for organization, queue in queues.items()}
    order: list[QueuedJob] = []
    while len(order) < limit and (heads := {each: queue[0] for each, queue in left.items() if queue}):
        job = fair_share.next(heads, now)
        left[job.organization_id].popleft()
        order.append(job)
        fair_share.grant(-len(order), job.organization_id, job.shape, now)
    return order
