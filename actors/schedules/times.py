"""The times of a cron expression in a time zone.

A time that the start of daylight saving skips is moved to the end of the gap. Of a time that its end repeats, the first
counts. An expression whose minute or hour begins with ``*`` means intervals, which follow real time, as in cron.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Literal

from cronsim import CronSim, CronSimError

from storage import NewSchedule, immutable

if TYPE_CHECKING:
    from storage import Schedule, ScheduleChanges


_FIELDS = 5
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
"""The start of 50 years in which every day of the week falls on every date."""
_UTC = "UTC"


class ScheduleInvalid(Exception):
    """A schedule that cannot be; ``field`` names the wrong part, and the message says what was expected."""

    def __init__(self, field: Literal["cron", "timezone"], message: str) -> None:
        super().__init__(message)
        self.field = field


@immutable
class ScheduleTimes:
    """The times of a schedule. Making one raises ScheduleInvalid."""

    cron: str
    timezone: str

    def __post_init__(self) -> None:
        if self.timezone not in _zones():
            raise ScheduleInvalid("timezone", "expected the name of a time zone, such as Europe/Berlin or UTC")
        if len(self.cron.split()) != _FIELDS:
            raise ScheduleInvalid(
                "cron", 'expected five fields: minute, hour, day of month, month, day of week, as in "30 4 * * 1-5"'
            )
        try:
            first = next(CronSim(self.cron, _LONG_AGO), None)
        except CronSimError as error:
            raise ScheduleInvalid("cron", _shown(error)) from None
        except ValueError:
            raise ScheduleInvalid("cron", "a number has too many digits") from None
        if first is None:
            raise ScheduleInvalid("cron", "the expression names no day of any year")

    def after(self, moment: datetime) -> datetime:
        """Return the first time after a moment, in UTC. Raises ScheduleInvalid if there is none."""
        local = moment.astimezone(zoneinfo.ZoneInfo(self.timezone))
        for each in CronSim(self.cron, local):
            time = each.astimezone(UTC)
            if time > moment:  # in a repeated hour the earlier of two may come once more
                return time
        raise ScheduleInvalid("cron", "the expression names no time in the next 50 years")


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _shown(error: CronSimError) -> str:
    field = str(error).removeprefix("Bad ").replace("-", " ")
    return f"the {field} is wrong" + (", or no month has it" if field == "day of month" else "")


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
