"""Events of a followed build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from api.operations import BuildRecord, JobRecord


@immutable
class FollowStarted:
    """The first event of a followed build; ``jobs`` are all its jobs, in DAG creation order."""

    build: BuildRecord
    jobs: tuple[JobRecord, ...]


@immutable
class LogLine:
    """A line of a job's log, or of that of its ``service``, without its line end."""

    job: JobRecord
    text: str
    service: str | None = None


@immutable
class JobUpdated:
    """A job's state, or the reason why it is pending, has changed."""

    job: JobRecord


@immutable
class BuildUpdated:
    """The build's state, or the reason why none of its jobs may start yet, has changed."""

    build: BuildRecord


Event = FollowStarted | LogLine | JobUpdated | BuildUpdated
