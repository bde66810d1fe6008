"""Which job gets the next VM, and in which order the others follow. Pure (engine.md, "Actors": the lease pool)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.waiting import Blocked, Waiting
from storage import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.capacity import Capacity
    from actors.fairness import Holdings
    from storage import QueuedJob

__all__ = ["Turn", "crowd", "in_turn", "next_turn"]

_SMALLEST = Shape(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Turn:
    """The job that gets the next VM, None where none does at present, and what keeps the others from theirs."""

    job: QueuedJob | None
    waiting: Waiting


def crowd(holdings: Holdings, host: Capacity) -> Waiting | None:
    """Say that the host has no room for any VM, however small; None where it has."""
    full = host.shortage(holdings.load(), _SMALLEST)
    return Waiting(host=Blocked(None, full)) if full is not None and full.total else None


def next_turn(
    heads: Iterable[QueuedJob], holdings: Holdings, host: Capacity, organization: Capacity, now: float
) -> Turn:
    """Choose among the next jobs of organizations; ``now`` is monotonic seconds.

    A large job is not overtaken by smaller ones behind it, or it would wait for ever.
    """
    if (crowded := crowd(holdings, host)) is not None:
        return Turn(None, crowded)
    fitting: dict[int, QueuedJob] = {}
    blocked: dict[int, Blocked] = {}
    for head in heads:
        lack = organization.shortage(holdings.load(head.organization_id), head.shape)
        if lack is None:
            fitting[head.organization_id] = head
        else:
            blocked[head.organization_id] = Blocked(head.job_id, lack)
    if not fitting:
        return Turn(None, Waiting(organizations=blocked))
    job = holdings.next(fitting, now)
    lack = host.shortage(holdings.load(), job.shape)
    if lack is not None:
        return Turn(None, Waiting(host=Blocked(job.job_id, lack), organizations=blocked))
    return Turn(job, Waiting(organizations=blocked))


def in_turn(queues: Mapping[int, Iterable[QueuedJob]], holdings: Holdings, now: float, limit: int) -> list[QueuedJob]:
    """Return who would get the next VMs if one after the other became free from now on, and nobody else came.

    Args:
        queues: each organization's waiting jobs, in their order.
        holdings: what organizations hold and used; it is spent by this.
        now: monotonic seconds.
        limit: how many jobs at most.
    """
    left = {organization: deque(queue) for organization, queue in queues.items()}
    order: list[QueuedJob] = []
    while len(order) < limit and (heads := {each: queue[0] for each, queue in left.items() if queue}):
        job = holdings.next(heads, now)
        left[job.organization_id].popleft()
        order.append(job)
        holdings.hold(-len(order), job.organization_id, job.shape, now)
    return order
