"""Schedules as people make and change them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir import ScheduleTimes
from storage import NewSchedule

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Schedule, ScheduleChanges


_UTC = "UTC"


def new_schedule(cron: str, timezone: str | None, branch: str, now: datetime, *, enabled: bool = True) -> NewSchedule:
    """Return a schedule to create; without a time zone it is in UTC. Raises ScheduleInvalid."""
    times = ScheduleTimes(cron, timezone or _UTC)
    return NewSchedule(times.cron, times.timezone, branch, times.after(now) if enabled else None)


def changed_schedule(
    schedule: Schedule,
    now: datetime,
    *,
    cron: str | None = None,
    timezone: str | None = None,
    branch: str | None = None,
    enabled: bool | None = None,
) -> ScheduleChanges:
    """Return the changes of a schedule; what is None stays. Raises ScheduleInvalid.

    A time that is due stays due unless the times change. Times that passed while it was disabled are over.
    """
    times = ScheduleTimes(cron or schedule.cron, timezone or schedule.timezone)
    changes: ScheduleChanges = {"cron": times.cron, "timezone": times.timezone, "branch": branch or schedule.branch}
    if enabled is False or (enabled is None and not schedule.enabled):
        changes["next_at"] = None
    elif not schedule.enabled or (times.cron, times.timezone) != (schedule.cron, schedule.timezone):
        changes["next_at"] = times.after(now)
    return changes
