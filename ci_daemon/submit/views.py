"""The fields of the API's records that following a build reads; others are ignored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime  # noqa: TC003 - pydantic reads the annotations

from storage import BuildState, JobState

__all__ = ["BuildView", "JobList", "JobView", "PipelineView", "Transaction", "TransactionPage", "UserView"]


@dataclass(frozen=True, slots=True)
class BuildView:
    """The fields of a build."""

    number: int
    state: BuildState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None

    @property
    def over(self) -> bool:
        """True if the state is final."""
        return self.state.terminal

    @property
    def seconds(self) -> float | None:
        """The time from its creation to its end, None before its end."""
        return _between(self.created_at, self.finished_at)


@dataclass(frozen=True, slots=True)
class JobView:
    """The fields of a job."""

    id: str
    name: str
    step_key: str
    state: JobState
    exit_code: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    soft_failed: bool = False
    pending_reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def over(self) -> bool:
        """True if the state is final."""
        return self.state.terminal

    @property
    def as_started(self) -> JobView:
        """The job as it was when its command started."""
        return replace(
            self,
            state=JobState.RUNNING,
            exit_code=None,
            error_code=None,
            error_message=None,
            soft_failed=False,
            pending_reason=None,
            finished_at=None,
        )

    @property
    def seconds(self) -> float | None:
        """The time from its start to its end, None before either."""
        return _between(self.started_at, self.finished_at)


@dataclass(frozen=True, slots=True)
class Transaction:
    """The fields of a ledger entry."""

    amount_cents: int
    source: str
    created_at: datetime
    description: str | None = None


@dataclass(frozen=True, slots=True)
class UserView:
    """The fields of the caller."""

    personal_org_slug: str


@dataclass(frozen=True, slots=True)
class PipelineView:
    """The fields of a pipeline."""

    slug: str


@dataclass(frozen=True, slots=True)
class JobList:
    """A build's jobs in DAG creation order."""

    data: list[JobView]


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """One page of the ledger, newest first."""

    data: list[Transaction]
    next_cursor: str | None


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
