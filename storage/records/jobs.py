"""Steps, jobs, their edges, attempts, outcomes and error codes, and turns in concurrency groups."""

from __future__ import annotations

import hashlib
from dataclasses import field, fields
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID

from storage.data_classes import immutable
from storage.settings import setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


MOST_PREVIEW_HOURS, _PREVIEW_HOURS = 720, 24
"""The most hours that a preview lasts, and those by default."""


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

    @cached_property
    def terminal(self) -> bool:
        """True if the state is final."""
        return self in {
            JobState.PASSED,
            JobState.FAILED,
            JobState.SKIPPED,
            JobState.CANCELED,
            JobState.TIMED_OUT,
        }

    @cached_property
    def failed(self) -> bool:
        """True if the job failed or timed out."""
        return self in {JobState.FAILED, JobState.TIMED_OUT}

    @cached_property
    def waiting(self) -> bool:
        """True if the job waits: for its prerequisites, or for a VM."""
        return self in {JobState.PENDING, JobState.SCHEDULED}

    @cached_property
    def ending(self) -> bool:
        """True if the job's command is being ended."""
        return self in {JobState.CANCELING, JobState.TIMING_OUT}

    @cached_property
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
    """A command of a pipeline with its attributes. An empty one stands for the program of its image.

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


@immutable
class ImageDigests:
    """The images that a job's disk, and each of its services, began with as its command started.

    That of a registry is its repository and digest, such as ``docker.io/library/debian@sha256:…``, an imported one the
    digest of its tar, ``sha256:…``. Other images have none.
    """

    image: str | None = None
    services: Mapping[str, str] = field(default_factory=dict)


@immutable
class Service:
    """A program beside a job's command, from an image of its own.

    ``command`` are arguments in place of the image's, None for these. It is ready once a command of its image passes,
    a port takes connections, or its log has a text, within ``ready_seconds``; without any of these, as its image says.
    ``files`` are folders of the job's disk, by the service's folders in whose place they are. With ``fails_job`` the
    job fails if the service ends before the command. It gets those of the job's secrets that ``secrets``
    names.
    """

    image: str
    env: Mapping[str, str]
    command: tuple[str, ...] | None
    ready_command: str | None
    ready_port: int | None
    ready_log: str | None
    ready_seconds: int
    files: Mapping[str, str]
    fails_job: bool
    secrets: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, object]:
        """The service as a job's row has it; without the secrets that it lacks, as caches name it."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return found if self.secrets else {name: value for name, value in found.items() if name != "secrets"}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Service:
        """Return the service of a document."""
        command, secrets = document["command"], document.get("secrets", ())
        return cls(**{**document, "command": None if command is None else tuple(command), "secrets": tuple(secrets)})


@immutable
class PreviewSpec:
    """The preview of a job: a command on its disk that serves a port, for so many ``hours``.

    Without ``hours`` it lasts as long as its pull request is open, or a day. It is for ``everyone``, or for members.
    """

    port: int
    command: str
    everyone: bool = False
    hours: int | None = None

    @property
    def document(self) -> dict[str, object]:
        """The preview as a job's row has it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def lasting(self, *, of_pull_request: bool) -> int:
        """Return the most seconds that it lasts, of a build of a pull request or another one."""
        return 3600 * (self.hours or (MOST_PREVIEW_HOURS if of_pull_request else _PREVIEW_HOURS))

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PreviewSpec:
        """Return the preview of a document."""
        return cls(**document)


class Dependency(NamedTuple):
    """A dependency of one job on the job at ``position`` in the same list.

    With ``builds_in`` the dependent also starts from the other's disk. With ``continue_on_failure`` any terminal state
    of the other satisfies it (pipeline-ir.md, "Graph shape"). With ``workspace`` the dependent takes the workspace that
    the other leaves.
    """

    position: int
    kind: EdgeKind = EdgeKind.DEPENDS_ON
    continue_on_failure: bool = False
    workspace: bool = False


@immutable
class NewJob(Step):
    """A planned job to insert. Its dependencies are sorted by position, one for each job.

    ``paths`` are globs of files: a change of one concerns its pipeline. None if the step gives none. ``skipped`` is why
    it is skipped in this build by its own condition, None if it is not. ``services`` are documents of services by their
    host names. With ``only_after_failure`` it runs only if a dependency fails, other than one that any end satisfies.
    Of a cell ``matrix_job`` is the key of the job with the matrix, and ``matrix`` has its values by axis. ``files`` are
    the lists of globs of the artifacts that it takes, by the keys of the jobs that keep them, ``files_of`` such
    mappings by other pipelines; ``keep`` are the folders that it keeps for later builds, with the names by which
    pipelines share them, or empty ones.
    """

    depends_on: tuple[Dependency, ...]
    paths: tuple[str, ...] | None = None
    skipped: str | None = None
    services: Mapping[str, object] = field(default_factory=dict)
    only_after_failure: bool = False
    matrix_job: str | None = None
    matrix: Mapping[str, str] | None = None
    files: Mapping[str, object] = field(default_factory=dict)
    files_of: Mapping[str, object] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    lock: str | None = None
    """The lock that it needs while it runs, in which ``{branch}`` stands for the branch."""

    lock_limit: int = 1
    """The most jobs of the organization that have the lock at a time."""

    environment: str | None = None
    """The environment that it deploys to, whose gate is before it."""

    generates: str | None = None
    """The file of its workspace that declares more jobs of the build."""

    identity_audience: str | None = None
    """The service for which it gets an identity token; None if it gets none."""

    registries: tuple[str, ...] = ()
    """The registries whose logins of the organization it gets."""

    preview: Mapping[str, object] = field(default_factory=dict)
    """The document of the preview that it has once it passed; empty for none."""

    taken: Job | None = None
    """The job of an earlier build as which it has ended; None if it is to run."""

    taken_from: int | None = None
    """The number of the build in which that job ran."""


@immutable
class Job(Step):
    """One node of a build's graph. ``position`` is its place in DAG creation order, from 0.

    ``attempts_before`` counts the attempts before its build was last retried. ``depends_on`` holds UUIDs.
    ``not_before`` is the end of the back-off before the next attempt, None if there is
    none. ``awaited_image`` is the image that a scheduled job waits for before it waits for a VM. At most ``lock_limit``
    jobs of the organization have its ``lock`` at a time; one that ``awaits_lock`` is in no queue. The gate of its
    ``environment`` is before it. ``generated_by`` is the UUID of the job whose file declares it, None for those of the
    pipeline itself. ``image_digest`` and ``service_image_digests`` are those of `ImageDigests`. ``taken_from`` is the
    number of the earlier build in which it ran, and as whose job it has ended; None if it is of this build alone.
    """

    id: int
    uuid: str
    build_id: int
    organization_id: int
    position: int
    only_after_failure: bool
    matrix_job: str | None
    matrix: Mapping[str, str] | None
    files: Mapping[str, object]
    keep: Mapping[str, str]
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
    services: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    files_of: Mapping[str, object] = field(default_factory=dict)
    lock: str | None = None
    lock_limit: int = 1
    awaits_lock: bool = False
    environment: str | None = None
    generates: str | None = None
    generated_by: str | None = None
    identity_audience: str | None = None
    registries: tuple[str, ...] = ()
    image_digest: str | None = None
    service_image_digests: Mapping[str, str] = field(default_factory=dict)
    preview: Mapping[str, object] = field(default_factory=dict)
    taken_from: int | None = None

    @property
    def all_services(self) -> dict[str, Service]:
        """The services beside the command, by their host names."""
        return {name: Service.of(cast("Mapping[str, Any]", each)) for name, each in self.services.items()}

    @property
    def its_preview(self) -> PreviewSpec | None:
        """The preview that it has once it passed."""
        return PreviewSpec.of(cast("Mapping[str, Any]", self.preview)) if self.preview else None

    @property
    def preview_uuid(self) -> str:
        """The UUID of the preview of its attempt, which the log of that tells before there is one."""
        digest = hashlib.sha256(f"preview of {self.uuid} {self.attempt}".encode()).digest()
        return str(UUID(bytes=digest[:16], version=4))

    @property
    def plan_key(self) -> str:
        """The key of the job in its file: of a cell that of the job with the matrix."""
        return self.matrix_job or self.step_key

    @property
    def skipped_by_condition(self) -> bool:
        """True if its own condition does not hold in its build, so that it counts as passed for others."""
        return self.error_code in SKIPPED_BY_CONDITION


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
    """Job ``to_id`` waits for job ``from_id``, and may take its ``workspace``; both are row ids."""

    from_id: int
    to_id: int
    kind: EdgeKind
    continue_on_failure: bool
    workspace: bool = False


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


@immutable
class JobOutputs:
    """The variables that a job gives to those that need it; ``error`` says why some are not among them."""

    job_id: int
    build_id: int
    variables: Mapping[str, str]
    error: str | None


class GivenOutputs(NamedTuple):
    """The outputs that a job has of one that it needs, which is at ``position`` in the build."""

    position: int
    step_key: str
    variables: Mapping[str, str]


@immutable
class JobSummary:
    """The Markdown that a job says of its build; more of it than is kept ``is_cut``."""

    job_id: int
    build_id: int
    text: str
    is_cut: bool


class ShownSummary(NamedTuple):
    """The summary of a job with the job's name."""

    id: int
    job_uuid: str
    job_name: str
    text: str
    is_cut: bool


class AnnotationLevel(StrEnum):
    """The weight of an annotation."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@immutable
class Annotation:
    """A remark of a job on a place in the repository, or on none.

    ``matcher`` is the one that found it in a line of the log, ``log_line``, from 1; both are None for one that the
    command wrote itself. Without a ``path`` there is no ``line``, and without that no ``column``; both count from 1.
    """

    level: AnnotationLevel
    message: str
    path: str | None = None
    line: int | None = None
    column: int | None = None
    title: str | None = None
    matcher: str | None = None
    log_line: int | None = None


class ShownAnnotation(NamedTuple):
    """An annotation with the job that says it."""

    id: int
    job_uuid: str
    job_name: str
    annotation: Annotation


class JobErrorCode(StrEnum):
    """The reasons why a job failed or timed out, besides its exit code (engine.md, "Error codes")."""

    ARTIFACTS_INCOMPLETE = "artifacts_incomplete"
    CONDITION_NOT_MET = "condition_not_met"
    DISK_FULL = "disk_full"
    ENVIRONMENT_NOT_FOUND = "environment_not_found"
    ENV_TOO_LARGE = "env_too_large"
    FILES_MISSING = "files_missing"
    GATE_EXPIRED = "gate_expired"
    GATE_REJECTED = "gate_rejected"
    GENERATED_INVALID = "generated_invalid"
    IMAGE_NOT_FOUND = "image_not_found"
    INTERNAL_ERROR = "internal_error"
    LEASE_FAILED = "lease_failed"
    LOG_NOT_KEPT = "log_not_kept"
    NOTHING_FAILED = "nothing_failed"
    OUTPUTS_INVALID = "outputs_invalid"
    PIPELINE_TIMEOUT = "pipeline_timeout"
    SECRET_NOT_ALLOWED = "secret_not_allowed"  # noqa: S105 - a code
    SECRET_NOT_FOUND = "secret_not_found"  # noqa: S105 - a code
    SECRET_UNAVAILABLE = "secret_unavailable"  # noqa: S105 - a code
    SERVICE_FAILED = "service_failed"
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


SKIPPED_BY_CONDITION = (JobErrorCode.CONDITION_NOT_MET, JobErrorCode.NOTHING_FAILED)
"""The codes of jobs that their condition has skipped: in the plan, or at the end of what they need."""


class BuildErrorCode(StrEnum):
    """The reasons why a build failed, other than its jobs (pipeline-ir.md, "Validation")."""

    BAD_VERSION = "bad_version"
    BILLING_INSUFFICIENT_BALANCE = "billing_insufficient_balance"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CYCLE = "cycle"
    DUPLICATE_KEY = "duplicate_key"
    INPUTS_INVALID = "inputs_invalid"
    INTERNAL_ERROR = "internal_error"
    INVALID_IR = "invalid_ir"
    INVALID_JSON = "invalid_json"
    MERGE_CONFLICT = "merge_conflict"
    RENDER_FAILED = "render_failed"
    SUPERSEDED = "superseded"
    UNKNOWN_DEPENDENCY = "unknown_dependency"
