"""Jobs of a build. They are made from the plan and end with the build, so that they are only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.engine import waiting_reason
from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.builds import NOT_RETRIED, BuildRecord, pending_reason, record_of_build
from api.operations.operation import GET, POST, READERS, STARTERS, Call, Query, Span, operation
from api.operations.things import BUILD, JOB, ReadableBuild, ReadableJob, ThisBuild, ThisJob, job_in_build
from storage import AnnotationLevel, Gate, JobState, Page, example, immutable, showing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from storage import Build, Job, ShownAnnotation, Uuid

_FILTERS = (
    Parameter("level", "Only those of this level.", {"type": "string", "enum": list(map(str, AnnotationLevel))}),
    Parameter("path", "Only those of this file.", {"type": "string", "examples": ["src/main.py"]}),
    Parameter("step", "Only those of the job with this step key.", {"type": "string", "examples": ["lint"]}),
)


@immutable
class JobRecord:
    """A job; ``pending_reason`` says why it waits, ``attempt`` counts from 1 and is 0 before the first.

    ``queue_position`` is 1 for the job of its organization that gets the next VM, and null if the job is not queued.
    ``services`` names those that run beside its command. ``matrix_job`` is the key of the job with a matrix that it is
    a cell of, ``matrix`` the cell's values; both are null for others. ``environment`` is where it deploys to, and
    ``gate`` the approval that this asks for, null until it is ready for all else. ``generated_by`` is the UUID of the
    job whose file declares it, null for a job of the pipeline itself. ``image_digest`` is the repository and digest of
    the image that it ran from, or the digest of the tar that was imported; null until its command starts, and for other
    images. ``service_image_digests`` has those of its services, by their names. ``taken_from`` is the number of the
    earlier build in which it ran, if this build rolls back to that: here it does not run; null otherwise.
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
    image_digest: str | None
    service_image_digests: Mapping[str, str]
    matrix_job: str | None
    matrix: Mapping[str, str] | None
    generated_by: Uuid | None
    taken_from: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    services: tuple[str, ...] = ()
    environment: str | None = None
    gate: Gate | None = None

    @classmethod
    def of(
        cls, job: Job, pending_reason: str | None = None, queue_position: int | None = None, gate: Gate | None = None
    ) -> JobRecord:
        """Return the record of a stored job."""
        return showing(
            cls,
            job,
            pending_reason=pending_reason,
            queue_position=queue_position,
            services=tuple(job.services),
            gate=gate,
        )

    @property
    def seconds(self) -> float | None:
        """The time from its start to its end, None before either."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


@immutable
class OutputsRecord:
    """The variables that a job gives to those that need it.

    ``error_message`` says why some of what it wrote is not among them.
    """

    variables: Mapping[str, str]
    error_message: str | None


@immutable
class SummaryRecord:
    """The summary that a job has written, as Markdown without the job's secrets.

    ``is_cut`` if there was more than is kept.
    """

    job_id: Uuid
    job_name: str = example("bench")
    text: str = example("## Sizes")
    is_cut: bool = example(value=False)


@immutable
class AnnotationRecord:
    """A remark of a job on a place in the repository, without the job's secrets.

    Without ``path`` it is on no place. ``matcher`` is the problem matcher that found it in the job's log, in
    ``log_line``, from 1; both are null for one that the command wrote itself.
    """

    job_id: Uuid
    job_name: str = example("lint")
    level: AnnotationLevel
    path: str | None = example("src/main.py")
    line: int | None
    column: int | None
    title: str | None = example("F401")
    message: str = example("os is imported but unused")
    matcher: str | None = example("ruff")
    log_line: int | None

    @classmethod
    def of(cls, shown: ShownAnnotation) -> AnnotationRecord:
        """Return the record of an annotation."""
        return showing(cls, shown.annotation, job_id=shown.job_uuid, job_name=shown.job_name)


JobList = Annotated[list[JobRecord], "Every job of a build, in topological order."]


@operation("listJobs", GET, f"{BUILD}/jobs", "The jobs.", callers=READERS)
def list_jobs(call: Call, build: ReadableBuild) -> JobList:
    """List a build's jobs in topological order."""
    jobs = call.storage.jobs.of_build(build.id)
    queued = any(job.state is JobState.SCHEDULED for job in jobs)
    positions = call.storage.queue.positions(build.organization_id, build.id) if queued else {}
    waits = pending_reason(call.storage, build)
    gates = call.storage.gates.of_build(build.id) if any(job.environment is not None for job in jobs) else {}
    return [_record(call, job, waits, positions.get(job.id), gates.get(job.id)) for job in jobs]


@operation("getJob", GET, JOB, "The job.", callers=READERS)
def get_job(call: Call, build: ReadableBuild, job: ReadableJob) -> JobRecord:
    """Get a job."""
    return job_record(call, build, job.uuid)


@operation("getJobOutputs", GET, f"{JOB}/outputs", "The outputs.", callers=READERS)
def get_job_outputs(call: Call, build: ReadableBuild, job: ReadableJob) -> OutputsRecord:  # noqa: ARG001 - it gives the job
    """Get the variables that a job gives to those that need it, as its command wrote them.

    They appear when the command has ended, and go with the logs of the build.
    """
    outputs = call.storage.told.outputs(job.id)
    return OutputsRecord({}, None) if outputs is None else OutputsRecord(outputs.variables, outputs.error)


@operation("listBuildSummaries", GET, f"{BUILD}/summaries", "A page of summaries.", callers=READERS)
def list_build_summaries(call: Call, build: ReadableBuild, span: Span) -> Page[SummaryRecord]:
    """List the summaries that the jobs of a build have written, in the order of the jobs.

    They appear when the commands have ended, and go with the logs of the build.
    """
    page = call.storage.told.summaries(build.id, span.limit, span.after)
    return Page(
        tuple(SummaryRecord(row.job_uuid, row.job_name, row.text, row.is_cut) for row in page.rows), page.next_key
    )


@operation(
    "listBuildAnnotations",
    GET,
    f"{BUILD}/annotations",
    "A page of annotations.",
    errors=("invalid_filter",),
    parameters=_FILTERS,
    callers=READERS,
)
def list_build_annotations(call: Call, build: ReadableBuild, span: Span, query: Query) -> Page[AnnotationRecord]:
    """List the remarks of a build's jobs on places in the repository, in the order of the jobs' ends.

    They appear when the commands have ended, and go with the logs of the build. A job has at most 500; the last one
    then counts the others.
    """
    level, path, step = (query.given[each.name] or None for each in _FILTERS)
    if level is not None and level not in tuple(AnnotationLevel):
        raise ApiError("invalid_filter", f"level: expected one of {', '.join(AnnotationLevel)}")
    page = call.storage.told.annotations(build.id, span.limit, span.after, level=level, path=path, step=step)
    return Page(tuple(map(AnnotationRecord.of, page.rows)), page.next_key)


@operation("retryJob", POST, f"{JOB}/retry", "The build, in which it runs again.", errors=NOT_RETRIED, callers=STARTERS)
def retry_job(call: Call, build: ThisBuild, job: ThisJob) -> BuildRecord:
    """Run a job of a finished build, such as a cell of a matrix, again; any member can.

    It has to be one that did not pass. The jobs that it builds on run again, too, or pass at once from the cache, and
    so do jobs that were skipped or canceled because of it.
    """
    from api.builds.creation import retry_in_place  # noqa: PLC0415 - planning takes long to import

    retried = retry_in_place(call.storage, call.engine, build, job, budget_id=call.budget_id)
    return record_of_build(call, retried)


def job_record(call: Call, build: Build, uuid: str) -> JobRecord:
    """Return the record of a build's job, as it is now."""
    job = job_in_build(call.storage, build, uuid)
    gate = None if job.environment is None else call.storage.gates.of_job(job.id)
    return _record(call, job, pending_reason(call.storage, build), call.storage.queue.position(job), gate)


def _record(call: Call, job: Job, build_waits: str | None, position: int | None, gate: Gate | None) -> JobRecord:
    waits = build_waits if job.state is JobState.PENDING else None
    return JobRecord.of(job, waits or waiting_reason(call.storage, call.engine, job, gate), position, gate)
