"""Schedules of the box."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from actors.schedules import ScheduleInvalid, changed_schedule, new_schedule
from ci_daemon.command.support.lookup import find_pipeline
from ci_daemon.command.support.session import Failure
from ci_daemon.remote.views import ScheduleView
from storage import SystemClock, TooManySchedules

if TYPE_CHECKING:
    from ci_daemon.command.backend.schedules import ScheduleTerms
    from ci_daemon.command.support.names import PipelineName
    from storage import Schedule, Storage

__all__ = ["BoxSchedules"]

_MOST = 1000


class BoxSchedules:
    """Schedules in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def all(self, pipeline: PipelineName) -> list[ScheduleView]:
        """Return the schedules of a pipeline, oldest first."""
        found = find_pipeline(self._storage, pipeline.org, pipeline.pipeline)
        return [ScheduleView.of(each) for each in self._storage.schedules.page(found.id, _MOST, None).rows]

    def add(self, pipeline: PipelineName, terms: ScheduleTerms) -> ScheduleView:
        """Create a schedule, whose cron expression is given."""
        found = find_pipeline(self._storage, pipeline.org, pipeline.pipeline)
        branch = terms.branch or found.default_branch
        try:
            new = new_schedule(terms.cron or "", terms.timezone, branch, SystemClock().now())
            return ScheduleView.of(self._storage.schedules.create(found.id, new))
        except ScheduleInvalid as error:
            raise _failure(error) from None
        except TooManySchedules as error:
            raise Failure(str(error)) from None

    def change(self, pipeline: PipelineName, id: str, terms: ScheduleTerms) -> ScheduleView:
        """Change a schedule, and return it as it is now."""
        found = self._find(pipeline, id)
        try:
            changes = changed_schedule(found, SystemClock().now(), **asdict(terms))
        except ScheduleInvalid as error:
            raise _failure(error) from None
        changed = self._storage.schedules.update(found.id, **changes)
        if changed is None:
            raise _unknown(pipeline, id)
        return ScheduleView.of(changed)

    def remove(self, pipeline: PipelineName, id: str) -> None:
        """Remove a schedule."""
        if not self._storage.schedules.remove(self._find(pipeline, id).id):
            raise _unknown(pipeline, id)

    def _find(self, pipeline: PipelineName, id: str) -> Schedule:
        of_pipeline = find_pipeline(self._storage, pipeline.org, pipeline.pipeline)
        found = self._storage.schedules.by_uuid(id)
        if found is None or found.pipeline_id != of_pipeline.id:
            raise _unknown(pipeline, id)
        return found


def _failure(error: ScheduleInvalid) -> Failure:
    return Failure(f"{error.field}: {error}")


def _unknown(pipeline: PipelineName, id: str) -> Failure:
    listing = f"`ci-daemon schedule list {pipeline.org} {pipeline.pipeline}`"
    return Failure(f"{pipeline} has no schedule {id}: {listing} shows all")
