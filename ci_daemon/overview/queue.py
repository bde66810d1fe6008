"""The jobs that wait for a VM, in the order in which they get one, the builds that wait, and why.

The order and the reasons come from the same rows and functions as the lease pool's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.scheduling import (
    Waiting,
    admission_block,
    awaits_image,
    awaits_lock,
    back_off,
    load_fair_share,
    queue_order,
    schedule_next,
)
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from actors import PoolSettings
    from actors.scheduling import Capacity
    from storage import Build, Clock, Job, Priority, Storage

_NOT_RUNNING = "waiting for a VM: the service does not run"


@immutable
class WaitingJob:
    """A waiting job; ``position`` counts from 1 over all organizations.

    ``position`` is None while the job backs off, or waits for an image, a lock or an approval. ``build`` is
    ORG/PIPELINE/NUMBER; ``priority`` says why it was made; ``since`` is when the job became ready for a VM, or for its
    approval.
    """

    position: int | None
    build: str
    step: str
    organization: str
    priority: Priority
    since: datetime
    reason: str


@immutable
class WaitingBuild:
    """A build none of whose jobs may have a VM yet; ``since`` is when it was created."""

    build: str
    organization: str
    priority: Priority
    since: datetime
    reason: str


def waiting_builds(storage: Storage, limit: int) -> list[WaitingBuild]:
    """Return at most ``limit`` builds that wait for an approval or for their turn, oldest first."""
    found = storage.builds.waiting(limit)
    if not found:
        return []
    from actors import wait_reason  # noqa: PLC0415 - it imports much, and mostly no build waits

    return [
        WaitingBuild(each.name, each.organization_slug, each.priority, each.created_at, reason)
        for each in found
        if (reason := wait_reason(storage, each)) is not None
    ]


def jobs_at_gates(storage: Storage, limit: int) -> list[WaitingJob]:
    """Return at most ``limit`` jobs that wait for approvals, those of the oldest builds first."""
    found: list[WaitingJob] = []
    for build_id in sorted(storage.gates.waiting()) if limit > 0 else ():
        from actors import gate_reason  # noqa: PLC0415 - it imports much, and mostly no job waits so

        build, gates = storage.builds.get(build_id), storage.gates.of_build(build_id)
        for job in () if build is None else storage.jobs.of_build(build_id):
            gate = gates.get(job.id)
            why = gate_reason(storage, job, gate) if job.state.waiting else None
            if build is not None and gate is not None and why is not None:
                found.append(_row(build, job, None, gate.asked_at, why))
        if len(found) >= limit:
            break
    return found[:limit]


def waiting_jobs(
    storage: Storage, settings: PoolSettings, host: Capacity, clock: Clock, limit: int, *, running: bool
) -> list[WaitingJob]:
    """Return at most ``limit`` waiting jobs: in line, then for an image or lock, then backing off.

    The order is an estimate, because the organizations' turns change with their usage. ``host`` has the caps for all
    VMs together; ``running`` says whether the service runs.
    """
    fair_share, now = load_fair_share(storage, clock), clock.monotonic()
    block = admission_block(storage, settings.low_disk_gb)
    heads = storage.queue.heads()
    decision = schedule_next(heads, fair_share, host, settings.organization(), now)
    reasons = Waiting(admission=block.reason) if block is not None else decision.waiting
    queues = {head.organization_id: storage.queue.following(head.organization_id, limit) for head in heads}
    found: list[WaitingJob] = []
    for position, queued in enumerate(queue_order(queues, fair_share, now, limit), 1):
        reason = reasons.reason(queued.job_id, queued.organization_id) if running else _NOT_RUNNING
        found += _waiting_job(storage, storage.jobs.get(queued.job_id), position, reason)
    for image in storage.queue.awaited_images():
        for awaiting in storage.queue.awaiting(image)[: limit - len(found)]:
            found += _waiting_job(storage, storage.jobs.get(awaiting.job_id), None, awaits_image(image))
    for job_id in storage.queue.awaiting_locks(limit - len(found)):
        job = storage.jobs.get(job_id)
        found += _waiting_job(storage, job, None, "" if job is None else awaits_lock(job))
    for job_id in storage.queue.backing_off(limit - len(found)):
        job = storage.jobs.get(job_id)
        if job is not None and (pause := back_off(job, clock.now())) is not None:
            found += _waiting_job(storage, job, None, pause)
    return found


def _waiting_job(storage: Storage, job: Job | None, position: int | None, reason: str) -> Iterator[WaitingJob]:
    """Yield a waiting job, unless it was deleted since it was listed."""
    build = None if job is None else storage.builds.get(job.build_id)
    if job is not None and build is not None and job.scheduled_at is not None:
        yield _row(build, job, position, job.scheduled_at, reason)


def _row(build: Build, job: Job, position: int | None, since: datetime, reason: str) -> WaitingJob:
    return WaitingJob(position, build.name, job.step_key, build.organization_slug, build.priority, since, reason)
