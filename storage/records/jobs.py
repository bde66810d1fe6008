"""Jobs, their edges, attempts and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["Attempt", "AwaitingJob", "Edge", "EdgeKind", "Job", "JobState", "NewJob", "Outcome", "QueuedJob", "Shape"]


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
        """True if the state is final."""
        return self in {
            JobState.PASSED,
            JobState.FAILED,
            JobState.SKIPPED,
            JobState.CANCELED,
            JobState.TIMED_OUT,
        }


class EdgeKind(StrEnum):
    """The kinds of dependencies between jobs (pipeline-ir.md, "Graph shape")."""

    BUILDS_IN = "builds_in"
    DEPENDS_ON = "depends_on"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a VM: whole vCPUs, GB of memory, GB of disk."""

    cpu: int = 2
    memory_gb: int = 4
    disk_gb: int = 20


@dataclass(frozen=True, slots=True)
class NewJob:
    """A planned job to insert. ``depends_on`` names positions in the same list, all before its own."""

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
class Job:
    """One node of a build's graph. ``position`` is its place in DAG creation order, from 0.

    ``not_before`` is the end of the back-off before the next attempt, None if there is none. ``awaited_image`` is the
    image that a scheduled job waits for before it waits for a VM.
    """

    id: int
    uuid: str
    build_id: int
    organization_id: int
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
    not_before: datetime | None
    awaited_image: str | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job or an attempt. Fields that are None leave the job's fields as they are."""

    exit_code: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    soft_failed: bool | None = None
    cache_hit: bool | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """Job ``to_id`` waits for job ``from_id``; both are row ids."""

    from_id: int
    to_id: int
    kind: EdgeKind
    continue_on_failure: bool


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class AwaitingJob:
    """A job that waits for its image."""

    job_id: int
    build_id: int
    uuid: str
    build_uuid: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a job, on one lease: ``assigned``, ``running``, then a terminal state.

    ``leased_at`` is when its VM was ready, ``exited_at`` when its command ended, and ``collected_at`` when its
    artifacts were stored, even if there were none.
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
