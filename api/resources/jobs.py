"""Jobs of a build. They are made from the plan and end with the build, so the API only reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import storage
from actors import wait_reason
from api.bodies import answer
from api.errors.responses import ApiError
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from storage import JobState, JsonModel, Storage

if TYPE_CHECKING:
    import falcon

    from api.engine import EngineInterface
    from api.middleware.authentication import Access

__all__ = ["JobListRecord", "JobRecord", "JobsResource", "job_in_build"]


class JobRecord(StoredRecord):
    """A job; ``pending_reason`` says why it waits, ``attempt`` counts from 1 and is 0 before the first.

    ``queue_position`` is 1 for the job of its organization that gets the next VM, and null if the job is not queued.
    """

    id: Uuid
    name: str
    step_key: str
    command: str
    state: JobState
    exit_code: int | None
    depends_on: list[Uuid]
    retry_policy: dict[str, Any] | None
    soft_fail_policy: dict[str, Any] | None
    soft_failed: bool
    error_code: str | None
    error_message: str | None
    attempt: int
    pending_reason: str | None
    queue_position: int | None
    cache_key: str | None
    cache_hit: bool
    image: str | None
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None

    @classmethod
    def of(cls, job: storage.Job, pending_reason: str | None, queue_position: int | None) -> JobRecord:
        """Return the record of a stored job."""
        return cls.showing(job, id=job.uuid, pending_reason=pending_reason, queue_position=queue_position)


class JobListRecord(JsonModel):
    """Every job of a build, in topological order."""

    data: list[JobRecord]


class JobsResource:
    """``…/builds/{number}/jobs`` and ``…/jobs/{job_id}``."""

    def __init__(self, storage: Storage, engine: EngineInterface, access: Access) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access

    @operation(
        "listJobs",
        Answer(200, "The jobs.", JobListRecord),
        errors=("organization_not_found", "pipeline_not_found", "build_not_found"),
        security="optional",
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """List a build's jobs in topological order."""
        build = self._access.readable_build(req, org, pipeline, number)
        jobs = self._storage.jobs.of_build(build.id)
        queued = any(job.state is JobState.SCHEDULED for job in jobs)
        positions = self._storage.queue.positions(build.organization_id, build.id) if queued else {}
        waits = wait_reason(self._storage, build)
        answer(resp, JobListRecord(data=[self._record(job, waits, positions.get(job.id)) for job in jobs]))

    @operation(
        "getJob",
        Answer(200, "The job.", JobRecord),
        errors=("organization_not_found", "pipeline_not_found", "build_not_found", "job_not_found"),
        security="optional",
    )
    def on_get(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str
    ) -> None:
        """Get a job."""
        build = self._access.readable_build(req, org, pipeline, number)
        job = job_in_build(self._storage, build, job_id)
        answer(resp, self._record(job, wait_reason(self._storage, build), self._storage.queue.position(job)))

    def _record(self, job: storage.Job, build_waits: str | None, position: int | None) -> JobRecord:
        waits = build_waits if job.state is JobState.PENDING else None
        return JobRecord.of(job, waits or self._engine.pending_reason(job), position)


def job_in_build(storage: Storage, build: storage.Build, job_id: str) -> storage.Job:
    """Return the build's job of that id. Raises ApiError ``job_not_found``."""
    job = storage.jobs.by_uuid(job_id)
    if job is None or job.build_id != build.id:
        raise ApiError.not_found("job", job_id)
    return job
