"""What the storage hands out and takes in: frozen records, no rows, no queries.

Every ``id`` is the row's integer key and stays inside the service; every ``uuid`` is the UUID v4 string that callers
see. Times are aware datetimes in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "ApiKey",
    "Attempt",
    "Build",
    "BuildState",
    "Caller",
    "Discrepancy",
    "Edge",
    "EdgeKind",
    "Job",
    "JobState",
    "Lease",
    "LeaseState",
    "LedgerEntry",
    "LedgerSource",
    "NewBuild",
    "NewJob",
    "NewPipeline",
    "Organization",
    "Page",
    "Pipeline",
    "QueuedJob",
    "Role",
    "Shape",
    "Snapshot",
    "Usage",
    "User",
    "Visibility",
]


T = TypeVar("T")


class Role(StrEnum):
    """A member's role in an organization, strongest first."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class Visibility(StrEnum):
    """Who may read a pipeline's builds, jobs and logs."""

    PRIVATE = "private"
    PUBLIC = "public"


class BuildState(StrEnum):
    """States of a build (engine.md, "States")."""

    SCHEDULED = "scheduled"
    RUNNING = "running"
    FAILING = "failing"
    PASSED = "passed"
    FAILED = "failed"
    CANCELING = "canceling"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        """Whether the state is final."""
        return self in {BuildState.PASSED, BuildState.FAILED, BuildState.CANCELED}


class JobState(StrEnum):
    """States of a job (engine.md, "States")."""

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
        """Whether the state is final, whatever arrives later."""
        return self in {
            JobState.PASSED,
            JobState.FAILED,
            JobState.SKIPPED,
            JobState.CANCELED,
            JobState.TIMED_OUT,
        }


class EdgeKind(StrEnum):
    """How a job depends on another (pipeline-ir.md, "Graph shape")."""

    BUILDS_IN = "builds_in"
    DEPENDS_ON = "depends_on"


class LeaseState(StrEnum):
    """The life of a leased VM. A row exists before its VM does and says ``ended`` after the VM is gone."""

    CREATING = "creating"
    WARM = "warm"
    ACTIVE = "active"
    ENDED = "ended"


class LedgerSource(StrEnum):
    """Why an entry stands in the ledger."""

    PAYMENT_TOPUP = "payment_topup"
    COUPON_REDEMPTION = "coupon_redemption"
    ADMIN_GRANT = "admin_grant"
    VM_LEASE_DEBIT = "vm_lease_debit"
    REFUND = "refund"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a VM: whole vCPUs, GB of memory, GB of disk."""

    cpu: int = 2
    memory_gb: int = 4
    disk_gb: int = 20


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; ``next_key`` is the last row's key where more rows follow, else None."""

    rows: tuple[T, ...]
    next_key: int | None


@dataclass(frozen=True, slots=True)
class User:
    """A person with an account."""

    id: int
    uuid: str
    email: str
    name: str
    personal_org_slug: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A personal API key, without its secret."""

    id: int
    uuid: str
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a bearer token belongs to."""

    user: User
    token_id: int


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization: the owner of pipelines and of a ledger."""

    id: int
    uuid: str
    slug: str
    name: str
    url: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewPipeline:
    """What a caller says of a pipeline it creates; ``slug`` is already derived and valid."""

    slug: str
    name: str
    repository: str
    default_branch: str
    description: str | None = None
    repo_name: str | None = None
    visibility: Visibility = Visibility.PRIVATE
    allow_manual: bool = True


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named, repeatable CI definition in an organization."""

    id: int
    uuid: str
    organization_id: int
    slug: str
    name: str
    repository: str
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    description: str | None
    repo_name: str | None
    source_slug: str | None
    fail_fast: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewBuild:
    """What a caller says of a build it creates."""

    branch: str
    commit: str
    message: str | None = None
    source: str = "api"
    env: Mapping[str, str] = field(default_factory=dict)
    pipeline_ir: str | None = None
    timeout_seconds: int | None = None
    source_archive: bytes | None = None
    source_sha256: str = ""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A planned job on its way into the storage; ``depends_on`` names positions in the same list, all smaller."""

    step_key: str
    name: str
    command: str
    image: str | None
    env: Mapping[str, str]
    shape: Shape
    depends_on: tuple[tuple[int, EdgeKind, bool], ...] = ()
    timeout_seconds: int | None = None
    network: bool = True
    retry_policy: Mapping[str, object] | None = None
    soft_fail_policy: Mapping[str, object] | None = None
    artifacts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    cache_policy: str = "none"
    cache_key: str | None = None


@dataclass(frozen=True, slots=True)
class Build:
    """One run of a pipeline. ``external_id`` is the ``id`` of the wire; ``uuid`` is the stable build id."""

    id: int
    uuid: str
    external_id: str
    pipeline_id: int
    organization_id: int
    organization_slug: str
    pipeline_slug: str
    number: int
    state: BuildState
    branch: str | None
    commit: str | None
    message: str | None
    source: str
    timeout_seconds: int | None
    cancel_requested: bool
    has_source: bool
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """One node of a build's graph. ``position`` is its place in DAG creation order, from 0."""

    id: int
    uuid: str
    build_id: int
    position: int
    step_key: str
    name: str
    command: str
    state: JobState
    image: str | None
    env: Mapping[str, str]
    shape: Shape
    timeout_seconds: int | None
    network: bool
    retry_policy: Mapping[str, object] | None
    soft_fail_policy: Mapping[str, object] | None
    soft_failed: bool
    artifacts: tuple[str, ...]
    secrets: tuple[str, ...]
    cache_policy: str
    cache_key: str | None
    cache_hit: bool
    attempt: int
    exit_code: int | None
    error_code: str | None
    error_message: str | None
    depends_on: tuple[str, ...]
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Edge:
    """Job ``to_id`` waits for job ``from_id``; both are row ids."""

    from_id: int
    to_id: int
    kind: EdgeKind
    continue_on_failure: bool


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits for a VM, with what the VM must be like.

    ``parent_snapshot_job_id`` is the ``builds_in`` parent whose disk it starts from, None where it starts from its
    image.
    """

    job_id: int
    build_id: int
    organization_id: int
    shape: Shape
    image: str | None
    network: bool
    parent_snapshot_job_id: int | None
    scheduled_at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job, on one lease: ``assigned``, ``running``, then what became of it."""

    job_id: int
    number: int
    state: JobState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    error_code: str | None


@dataclass(frozen=True, slots=True)
class Lease:
    """One VM, from before it is made until it is gone.

    ``started_at`` is when the job's command started, which is when billing starts; a lease that never ran a command
    has none and costs nothing. ``uuid`` is also the VM's name at its provider.
    """

    id: int
    uuid: str
    organization_id: int | None
    job_id: int | None
    attempt: int
    provider: str
    image: str | None
    shape: Shape
    network: bool
    state: LeaseState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    amount_cents: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job's disk as its command left it, kept by a provider under ``name``."""

    name: str
    job_id: int
    provider: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the append-only ledger; positive credits, negative debits, whole cents."""

    id: int
    uuid: str
    amount_cents: int
    source: LedgerSource
    description: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that the ledger says and the rest of the database does not; ``problem`` is one sentence."""

    organization_slug: str
    problem: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What an organization's leases used in a window; ``total_cents`` is positive."""

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int
