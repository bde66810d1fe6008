"""The jobs that wait for a VM, in the order in which they get one, and why they wait.

The order and the reasons come from the same rows and functions as the lease pool's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.recollection import recollect
from actors.standstill import standstill
from actors.turns import in_turn, next_turn
from actors.waiting import Waiting, awaits_image, back_off

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from actors import PoolSettings
    from storage import Clock, Job, Storage

__all__ = ["WaitingJob", "waiting"]

_STOPPED = "waiting for a VM: the service does not run"


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A waiting job; ``position`` counts from 1 over all organizations.

    ``position`` is None while the job backs off or waits for its image. ``build`` is ORG/PIPELINE/NUMBER; ``since`` is
    when the job became ready for a VM.
    """

    position: int | None
    build: str
    step: str
    organization: str
    since: datetime
    reason: str


def waiting(storage: Storage, settings: PoolSettings, clock: Clock, limit: int, *, served: bool) -> list[WaitingJob]:
    """Return at most ``limit`` waiting jobs: those in line first, then for an image, then backing off.

    The order is an estimate, because the organizations' turns change with their usage. ``served`` says whether the
    service runs.
    """
    holdings, now = recollect(storage, clock), clock.monotonic()
    still = standstill(storage, settings.low_disk_gb)
    heads = storage.queue.heads()
    turn = next_turn(heads, holdings, settings.host(), settings.organization(), now)
    why = Waiting(everyone=still.reason) if still is not None else turn.waiting
    queues = {head.organization_id: storage.queue.following(head.organization_id, limit) for head in heads}
    found: list[WaitingJob] = []
    for position, queued in enumerate(in_turn(queues, holdings, now, limit), 1):
        reason = why.reason(queued.job_id, queued.organization_id) if served else _STOPPED
        found += _told(storage, storage.jobs.get(queued.job_id), position, reason)
    for image in storage.queue.awaited_images():
        for awaiting in storage.queue.awaiting(image)[: limit - len(found)]:
            found += _told(storage, storage.jobs.get(awaiting.job_id), None, awaits_image(image))
    for job_id in storage.queue.backing_off(limit - len(found)):
        job = storage.jobs.get(job_id)
        if job is not None and (pause := back_off(job, clock.now())) is not None:
            found += _told(storage, job, None, pause)
    return found


def _told(storage: Storage, job: Job | None, position: int | None, reason: str) -> Iterator[WaitingJob]:
    """Yield a waiting job, unless it was deleted since it was listed."""
    build = None if job is None else storage.builds.get(job.build_id)
    if job is not None and build is not None and job.scheduled_at is not None:
        yield WaitingJob(position, build.name, job.step_key, build.organization_slug, job.scheduled_at, reason)
