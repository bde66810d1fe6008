"""The fields of the API's records that commands read; others are ignored."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Self

from storage import BuildState, CancelSuperseded, JobState, Visibility, immutable

if TYPE_CHECKING:
    from storage import Artifact, Build, Job, Pipeline

__all__ = [
    "ArtifactView",
    "BuildView",
    "JobView",
    "PipelineView",
    "StatusView",
    "TokenView",
]


@immutable
class BuildView:
    """The fields of a build."""

    number: int
    state: BuildState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None
    id: str | None = None
    branch: str | None = None
    commit: str | None = None
    rebuild_of: int | None = None
    pending_reason: str | None = None
    untrusted: bool = False
    approved_by: str | None = None
    strict_shell: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, build: Build, pending_reason: str | None = None) -> Self:
        """Return the view of a stored build."""
        return cls(
            number=build.number,
            state=build.state,
            created_at=build.created_at,
            started_at=build.started_at,
            finished_at=build.finished_at,
            error_code=build.error_code,
            error_message=build.error_message,
            id=build.external_id,
            branch=build.branch,
            commit=build.commit,
            rebuild_of=build.rebuild_of,
            pending_reason=pending_reason,
            untrusted=build.untrusted,
            approved_by=build.approved_by,
            strict_shell=build.strict_shell,
            warnings=build.warnings,
        )

    @property
    def over(self) -> bool:
        """True if the state is final."""
        return self.state.terminal

    @property
    def seconds(self) -> float | None:
        """The time from its creation to its end, None before its end."""
        return _between(self.created_at, self.finished_at)


@immutable
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
    attempt: int = 1

    @classmethod
    def of(cls, job: Job, pending_reason: str | None = None) -> JobView:
        """Return the view of a stored job."""
        return cls(
            id=job.uuid,
            name=job.name,
            step_key=job.step_key,
            state=job.state,
            exit_code=job.exit_code,
            error_code=job.error_code,
            error_message=job.error_message,
            soft_failed=job.soft_failed,
            pending_reason=pending_reason,
            started_at=job.started_at,
            finished_at=job.finished_at,
            attempt=job.attempt,
        )

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


@immutable
class ArtifactView:
    """The fields of a file that a job kept."""

    id: str
    job_id: str
    path: str
    file_size: int
    sha256: str
    created_at: datetime

    @classmethod
    def of(cls, artifact: Artifact) -> ArtifactView:
        """Return the view of a stored artifact."""
        return cls(
            artifact.uuid,
            artifact.job_uuid,
            artifact.path,
            artifact.file_size,
            artifact.sha256,
            artifact.created_at,
        )


@immutable
class PipelineView:
    """The fields of a pipeline."""

    slug: str
    name: str
    repository: str
    default_branch: str
    description: str | None
    visibility: Visibility
    allow_manual: bool
    repo_name: str | None
    fail_fast: bool
    concurrency_group: str | None
    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None
    build_count: int
    created_at: datetime
    strict_shell: bool | None = None

    @classmethod
    def of(cls, pipeline: Pipeline) -> PipelineView:
        """Return the view of a stored pipeline."""
        return cls(**{each.name: getattr(pipeline, each.name) for each in fields(cls)})


@immutable
class StatusView:
    """The answer of a service that is there."""

    status: str


@immutable
class TokenView:
    """A session token, shown only once."""

    token: str


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
