"""Jobs that wait for a VM, in their order, and builds that wait, with the reasons; read from rows.

The order and the reasons come from the same rows and functions as the lease pool's (engine.md, "The lease pool").
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - a command reads the annotations
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

from actors.scheduling.pending_reason import Waiting, admission_block, awaits_image, awaits_lock, back_off
from actors.scheduling.scheduler import load_fair_share, queue_order, schedule_next
from storage import Priority, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.scheduling.capacity import Capacity
    from actors.settings import PoolSettings
    from storage import Build, Clock, Job, Storage

_Read: TypeAlias = "Callable[[], WaitingWork | None]"
"""Reads what waits; None if it was deleted, or went on, since it was listed."""

_NOT_RUNNING = "waiting for a VM: the service does not run"


@immutable
class WaitingWork:
    """A waiting job, or without a ``step`` a build none of whose jobs may have a VM yet.

    ``position`` counts from 1 over all organizations; it is None while a job backs off, or waits for an image, a lock
    or an approval. ``build`` is ORG/PIPELINE/NUMBER; ``priority`` says why it was made; ``since`` is when the job
    became ready for a VM, or for its approval, or when the build was created.
    """

    position: int | None
    build: str
    step: str | None
    organization: str
    priority: Priority
    since: datetime
    reason: str


def waiting_work(
    storage: Storage, settings: PoolSettings, host: Capacity, clock: Clock, part: range, *, running: bool
) -> list[WaitingWork]:
    """Return a part of what waits: jobs in line, then other jobs, then builds.

    Other jobs wait for an image, a lock or an approval, or back off. The arguments are those of `jobs_in_line`.
    """
    jobs = _jobs(storage, settings, host, clock, part.stop, running=running)
    others = chain(_jobs_at_gates(storage), _builds(storage, part.stop))
    return _shown(islice(chain(jobs, others), part.start, part.stop))


def jobs_in_line(
    storage: Storage, settings: PoolSettings, host: Capacity, clock: Clock, limit: int, *, running: bool
) -> list[WaitingWork]:
    """Return at most ``limit`` waiting jobs: in line, then for an image or lock, then backing off.

    The order is an estimate, because the organizations' turns change with their usage. ``host`` has the caps for all
    VMs together; ``running`` says whether the service runs.
    """
    return _shown(islice(_jobs(storage, settings, host, clock, limit, running=running), limit))


def _shown(rows: Iterable[_Read]) -> list[WaitingWork]:
    return [found for read in rows if (found := read()) is not None]


def _jobs(
    storage: Storage, settings: PoolSettings, host: Capacity, clock: Clock, most: int, *, running: bool
) -> Iterator[_Read]:
    """Yield what reads each waiting job, of which at most ``most`` are wanted."""
    fair_share, now = load_fair_share(storage, clock), clock.monotonic()
    block = admission_block(storage, settings.low_disk_gb)
    heads = storage.queue.heads()
    decision = schedule_next(heads, fair_share, host, settings.organization(), now)
    reasons = Waiting(admission=block.reason) if block is not None else decision.waiting
    queues = {head.organization_id: storage.queue.following(head.organization_id, most) for head in heads}
    for position, queued in enumerate(queue_order(queues, fair_share, now, most), 1):
        reason = reasons.reason(queued.job_id, queued.organization_id) if running else _NOT_RUNNING
        yield partial(_job, storage, queued.job_id, position, partial(_said, reason))
    for image in storage.queue.awaited_images():
        for awaiting in storage.queue.awaiting(image)[:most]:
            yield partial(_job, storage, awaiting.job_id, None, partial(_said, awaits_image(image)))
    for job_id in storage.queue.awaiting_locks(most):
        yield partial(_job, storage, job_id, None, awaits_lock)
    for job_id in storage.queue.backing_off(most):
        yield partial(_job, storage, job_id, None, lambda job: back_off(job, clock.now()))


def _job(
    storage: Storage, job_id: int, position: int | None, reason: Callable[[Job], str | None]
) -> WaitingWork | None:
    job = storage.jobs.get(job_id)
    build = None if job is None else storage.builds.get(job.build_id)
    if job is None or build is None or job.scheduled_at is None or (why := reason(job)) is None:
        return None
    return _row(build, job, position, job.scheduled_at, why)


def _said(reason: str, _job: Job) -> str:
    return reason


def _jobs_at_gates(storage: Storage) -> Iterator[_Read]:
    """Yield the jobs that wait for approvals, those of the oldest builds first."""
    for build_id in sorted(storage.gates.waiting()):
        from actors.builds.gates import gate_reason  # noqa: PLC0415 - it imports much, and mostly no job waits so

        build, gates = storage.builds.get(build_id), storage.gates.of_build(build_id)
        for job in () if build is None else storage.jobs.of_build(build_id):
            gate = gates.get(job.id)
            why = gate_reason(storage, job, gate) if job.state.waiting else None
            if build is not None and gate is not None and why is not None:
                yield partial(_row, build, job, None, gate.asked_at, why)


def _builds(storage: Storage, most: int) -> Iterator[_Read]:
    """Yield the builds that wait for an approval or for their turn, oldest first."""
    for each in storage.builds.waiting(most):
        from actors.builds.retrying import wait_reason  # noqa: PLC0415 - it imports much, and mostly no build waits

        if (reason := wait_reason(storage, each)) is not None:
            yield partial(_of_build, each, reason)


def _row(build: Build, job: Job, position: int | None, since: datetime, reason: str) -> WaitingWork:
    return WaitingWork(position, build.name, job.step_key, build.organization_slug, build.priority, since, reason)


def _of_build(build: Build, reason: str) -> WaitingWork:
    return WaitingWork(None, build.name, None, build.organization_slug, build.priority, build.created_at, reason)
