"""Steps, jobs, their edges, attempts, outcomes and error codes, and turns in concurrency groups."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from storage.data_classes import immutable
from storage.settings import setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class JobState(StrEnum):
    """The state of a job.

    ``pending``: a prerequisite has not ended. ``scheduled``: the job waits for a VM. ``assigned``: it has one.
    ``running``: its command runs. ``canceling`` and ``timing_out``: its command is being ended. ``skipped``: it never
    runs, because a prerequisite did not succeed. ``passed``, ``failed``, ``skipped``, ``canceled`` and ``timed_out``
    are final.
    """

    PENDING = "pending"
    SCHEDULED = "scheduled"
    ASSIGNED = "assigned"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELING = "canceling"
    CANCELED = "canceled"
    TIMING_OUT = "timing_out"
    TIMED_OUT = "timed_out"

    @property
    def terminal(self) -> bool:
        """True if the state is final."""
        return self in {
            JobState.PASSED,
            JobState.FAILED,
            JobState.SKIPPED,
            JobState.CANCELED,
            JobState.TIMED_OUT,
        }

    @property
    def failed(self) -> bool:
        """True if the job failed or timed out."""
        return self in {JobState.FAILED, JobState.TIMED_OUT}

    @property
    def waiting(self) -> bool:
        """True if the job waits: for its prerequisites, or for a VM."""
        return self in {JobState.PENDING, JobState.SCHEDULED}

    @property
    def ending(self) -> bool:
        """True if the job's command is being ended."""
        return self in {JobState.CANCELING, JobState.TIMING_OUT}

    @property
    def has_vm(self) -> bool:
        """True if the job has an actor and a VM."""
        return self in {JobState.ASSIGNED, JobState.RUNNING} or self.ending


class EdgeKind(StrEnum):
    """The kinds of dependencies between jobs (pipeline-ir.md, "Graph shape")."""

    BUILDS_IN = "builds_in"
    DEPENDS_ON = "depends_on"


@immutable
class Shape:
    """The size of a VM: whole vCPUs, GB of memory, GB of disk."""

    cpu: int = setting(2, "The number of vCPUs.", at_least=1)
    memory_gb: int = setting(4, "The GB of memory.", at_least=1)
    disk_gb: int = setting(20, "The GB of disk.", at_least=1)


@immutable
class Step:
    """A command of a pipeline with its attributes.

    ``image`` is None for the service's default image. ``retry_policy`` holds ``limit`` and, if given, ``exit_codes``
    and ``backoff_seconds``. ``soft_fail_policy`` holds ``exit_codes``: a list, or None for any. ``cache_key`` is None
    if the job is not cached.
    """

    step_key: str
    name: str
    command: str
    image: str | None
    env: Mapping[str, str]
    shape: Shape
    timeout_seconds: int | None
    network: bool
    retry_policy: Mapping[str, object] | None
    soft_fail_policy: Mapping[str, object] | None
    artifacts: tuple[str, ...]
    secrets: tuple[str, ...]
    cache_policy: str
    cache_key: str | None


class Dependency(NamedTuple):
    """A dependency of one job on the job at ``position`` in the same list.

    With ``builds_in`` the dependent also starts from the other's disk. With ``continue_on_failure`` any terminal state
    of the other satisfies it (pipeline-ir.md, "Graph shape").
    """

    position: int
    kind: EdgeKind = EdgeKind.DEPENDS_ON
    continue_on_failure: bool = False


@immutable
class NewJob(Step):
    """A planned job to insert. Its dependencies are sorted by position, one for each job.

    ``paths`` are globs of files: a change of one concerns its pipeline. None if the step gives none.
    """

    depends_on: tuple[Dependency, ...]
    paths: tuple[str, ...] | None = None


@immutable
class Job(Step):
    """One node of a build's graph. ``position`` is its place in DAG creation order, from 0.

    ``attempts_before`` counts the attempts before its build was last retried. ``depends_on`` holds UUIDs.
    ``not_before`` is the end of the back-off before the next attempt, None if there is
    none. ``awaited_image`` is the image that a scheduled job waits for before it waits for a VM.
    """

    id: int
    uuid: str
    build_id: int
    organization_id: int
    position: int
    state: JobState
    soft_failed: bool
    cache_hit: bool
    attempt: int
    attempts_before: int
    exit_code: int | None
    error_code: str | None
    error_message: str | None
    depends_on: tuple[str, ...]
    created_at: datetime
    scheduled_at: datetime | None
    not_before: datetime | None
    awaited_image: str | None
    started_at: datetime | None
    finished_at: datetime | None


@immutable
class Outcome:
    """The outcome of a job or an attempt. Fields that are None leave the job's fields as they are."""

    exit_code: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    soft_failed: bool | None = None
    cache_hit: bool | None = None


@immutable
class Edge:
    """Job ``to_id`` waits for job ``from_id``; both are row ids."""

    from_id: int
    to_id: int
    kind: EdgeKind
    continue_on_failure: bool


@immutable
class QueuedJob:
    """A job that waits for a VM, with its requirements of the VM and its organization's weight.

    ``parent_snapshot_job_id`` is the ``builds_in`` parent whose disk it starts from, None if it starts from its image.
    """

    job_id: int
    build_id: int
    organization_id: int
    weight: int
    shape: Shape
    image: str | None
    network: bool
    parent_snapshot_job_id: int | None
    scheduled_at: datetime
    position: int


@immutable
class AwaitingJob:
    """A job that waits for its image."""

    job_id: int
    build_id: int
    uuid: str
    build_uuid: str
    attempt: int


@immutable
class Attempt:
    """One execution of a job, on one lease: ``assigned``, ``running``, then a terminal state.

    ``leased_at`` is when its VM was ready, ``exited_at`` when its command ended, and ``collected_at`` when its
    artifacts were stored, even if there were none. ``cache_name`` is the name under which its disk may be cached.
    """

    job_id: int
    number: int
    state: JobState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    error_code: str | None
    collected_at: datetime | None
    leased_at: datetime | None
    exited_at: datetime | None
    cache_name: str | None = None


@immutable
class Turn:
    """The wait of a build in its concurrency group.

    ``running`` are the names of the builds that have its places; ``before`` others wait before this one.
    """

    group: str
    limit: int
    running: tuple[str, ...]
    before: int


class JobErrorCode(StrEnum):
    """The reasons why a job failed or timed out, besides its exit code (engine.md, "Error codes")."""

    ARTIFACTS_INCOMPLETE = "artifacts_incomplete"
    DISK_FULL = "disk_full"
    ENV_TOO_LARGE = "env_too_large"
    IMAGE_NOT_FOUND = "image_not_found"
    INTERNAL_ERROR = "internal_error"
    LEASE_FAILED = "lease_failed"
    LOG_NOT_KEPT = "log_not_kept"
    PIPELINE_TIMEOUT = "pipeline_timeout"
    SECRET_NOT_FOUND = "secret_not_found"  # noqa: S105 - a code
    SNAPSHOT_FAILED = "snapshot_failed"
    SOURCE_FETCH_FAILED = "source_fetch_failed"
    STEP_TIMEOUT = "step_timeout"
    VM_LOST = "vm_lost"

    @property
    def of_service(self) -> bool:
        """True if the owner of the service should look into it, rather than the author of the pipeline."""
        return self in {
            JobErrorCode.INTERNAL_ERROR,
            JobErrorCode.LEASE_FAILED,
            JobErrorCode.LOG_NOT_KEPT,
            JobErrorCode.SNAPSHOT_FAILED,
            JobErrorCode.VM_LOST,
        }


class BuildErrorCode(StrEnum):
    """The reasons why a build failed, other than its jobs (pipeline-ir.md, "Validation")."""

    BAD_VERSION = "bad_version"
    BILLING_INSUFFICIENT_BALANCE = "billing_insufficient_balance"
    CYCLE = "cycle"
    DUPLICATE_KEY = "duplicate_key"
    INTERNAL_ERROR = "internal_error"
    INVALID_IR = "invalid_ir"
    INVALID_JSON = "invalid_json"
    RENDER_FAILED = "render_failed"
    SUPERSEDED = "superseded"
    UNKNOWN_DEPENDENCY = "unknown_dependency"
