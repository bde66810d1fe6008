"""Schedules of a server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_daemon.remote import operations

if TYPE_CHECKING:
    from ci_daemon.command.backend.schedules import ScheduleTerms
    from ci_daemon.command.support.names import PipelineName
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.views import ScheduleView

__all__ = ["ServerSchedules"]


class ServerSchedules:
    """Schedules by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, pipeline: PipelineName) -> list[ScheduleView]:
        """Return the schedules of a pipeline, oldest first."""
        return list(self._connection.items(operations.LIST_SCHEDULES, asdict(pipeline)))

    def add(self, pipeline: PipelineName, terms: ScheduleTerms) -> ScheduleView:
        """Create a schedule, whose cron expression is given."""
        return self._connection.call(operations.CREATE_SCHEDULE, asdict(pipeline), body=_body(terms))

    def change(self, pipeline: PipelineName, id: str, terms: ScheduleTerms) -> ScheduleView:
        """Change a schedule, and return it as it is now."""
        return self._connection.call(operations.UPDATE_SCHEDULE, {**asdict(pipeline), "id": id}, body=_body(terms))

    def remove(self, pipeline: PipelineName, id: str) -> None:
        """Remove a schedule."""
        self._connection.call(operations.DELETE_SCHEDULE, {**asdict(pipeline), "id": id})


def _body(terms: ScheduleTerms) -> dict[str, object]:
    return {key: value for key, value in asdict(terms).items() if value is not None}
