"""Jobs of a build. They are made from the plan and end with the build, so that they are only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.builds.waiting import pending_reason
from api.operations.operation import GET, Call, operation
from api.operations.things import BUILD, JOB, ReadableBuild, ReadableJob
from storage import JobState, immutable, showing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from storage import Job, Uuid


@immutable
class JobRecord:
    """A job; ``pending_reason`` says why it waits, ``attempt`` counts from 1 and is 0 before the first.

    ``queue_position`` is 1 for the job of its organization that gets the next VM, and null if the job is not queued.
    """

    uuid: Uuid
    name: str
    step_key: str
    command: str
    state: JobState
    exit_code: int | None
    depends_on: tuple[Uuid, ...]
    retry_policy: Mapping[str, object] | None
    soft_fail_policy: Mapping[str, object] | None
    soft_failed: bool
    error_code: str | None
    error_message: str | None
    attempt: int
    pending_reason: str | None
    queue_position: int | None
    cache_key: str | None
    cache_hit: bool
    image: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job, pending_reason: str | None = None, queue_position: int | None = None) -> JobRecord:
        """Return the record of a stored job."""
        return showing(cls, job, pending_reason=pending_reason, queue_position=queue_position)

    @property
    def seconds(self) -> float | None:
        """The time from its start to its end, None before either."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


JobList = Annotated[list[JobRecord], "Every job of a build, in topological order."]


@operation("listJobs", GET, f"{BUILD}/jobs", "The jobs.", security="optional")
def list_jobs(call: Call, build: ReadableBuild) -> JobList:
    """List a build's jobs in topological order."""
    jobs = call.storage.jobs.of_build(build.id)
    queued = any(job.state is JobState.SCHEDULED for job in jobs)
    positions = call.storage.queue.positions(build.organization_id, build.id) if queued else {}
    waits = pending_reason(call.storage, build)
    return [_record(call, job, waits, positions.get(job.id)) for job in jobs]


@operation("getJob", GET, JOB, "The job.", security="optional")
def get_job(call: Call, build: ReadableBuild, job: ReadableJob) -> JobRecord:
    """Get a job."""
    return _record(call, job, pending_reason(call.storage, build), call.storage.queue.position(job))


def _record(call: Call, job: Job, build_waits: str | None, position: int | None) -> JobRecord:
    waits = build_waits if job.state is JobState.PENDING else None
    return JobRecord.of(job, waits or call.engine.pending_reason(job), position)
