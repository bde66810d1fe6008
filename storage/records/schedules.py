"""Schedules of pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["NewSchedule", "Schedule", "ScheduleChanges"]


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule to create, whose parts are checked; without ``next_at`` it is disabled."""

    cron: str
    timezone: str
    branch: str
    next_at: datetime | None


class ScheduleChanges(TypedDict, total=False):
    """Changes of a schedule; absent fields stay as they are."""

    cron: str
    timezone: str
    branch: str
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which a branch of a pipeline is built.

    ``last_error`` is why nothing was built the last time; None if something was.
    """

    id: int
    uuid: str
    pipeline_id: int
    cron: str
    timezone: str
    branch: str
    next_at: datetime | None
    last_build_number: int | None
    last_error: str | None
    created_at: datetime

    @property
    def enabled(self) -> bool:
        """True if it has a next time."""
        return self.next_at is not None
