"""Schedules, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from storage import immutable

if TYPE_CHECKING:
    from ci_daemon.command.support.names import PipelineName
    from ci_daemon.remote.views import ScheduleView

__all__ = ["ScheduleTerms", "Schedules"]


@immutable
class ScheduleTerms:
    """The terms of a schedule that a caller gives; what is None stays, or has its default."""

    cron: str | None = None
    timezone: str | None = None
    branch: str | None = None
    enabled: bool | None = None


class Schedules(Protocol):
    """Schedules of pipelines. All methods raise Failure, RequestFailed and StorageError."""

    def all(self, pipeline: PipelineName) -> list[ScheduleView]:
        """Return the schedules of a pipeline, oldest first."""
        ...

    def add(self, pipeline: PipelineName, terms: ScheduleTerms) -> ScheduleView:
        """Create a schedule, whose cron expression is given."""
        ...

    def change(self, pipeline: PipelineName, id: str, terms: ScheduleTerms) -> ScheduleView:
        """Change a schedule, and return it as it is now."""
        ...

    def remove(self, pipeline: PipelineName, id: str) -> None:
        """Remove a schedule."""
        ...
