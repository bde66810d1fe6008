"""The times of a cron expression in a time zone.

A time that the start of daylight saving skips is moved to the end of the gap. Of a time that its end repeats, the first
counts. An expression whose minute or hour begins with ``*`` means intervals, which follow real time, as in cron.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from functools import cache
from typing import Literal

from cronsim import CronSim, CronSimError

from storage import immutable

_FIELDS = 5
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
"""The start of 50 years in which every day of the week falls on every date."""


class ScheduleInvalid(ValueError):
    """A schedule that cannot be; ``field`` names the wrong part, and the message says what was expected."""

    def __init__(self, field: Literal["cron", "timezone"], message: str) -> None:
        super().__init__(message)
        self.field = field


def check_timezone(name: str) -> None:
    """Raise ScheduleInvalid unless it is the name of a time zone."""
    if name not in _zones():
        raise ScheduleInvalid("timezone", "expected the name of a time zone, such as Europe/Berlin or UTC")


def check_cron(cron: str) -> None:
    """Raise ScheduleInvalid unless it is a cron expression that names a day."""
    if len(cron.split()) != _FIELDS:
        raise ScheduleInvalid(
            "cron", 'expected five fields: minute, hour, day of month, month, day of week, as in "30 4 * * 1-5"'
        )
    try:
        first = next(CronSim(cron, _LONG_AGO), None)
    except CronSimError as error:
        raise ScheduleInvalid("cron", _shown(error)) from None
    except ValueError:
        raise ScheduleInvalid("cron", "a number has too many digits") from None
    if first is None:
        raise ScheduleInvalid("cron", "the expression names no day of any year")


@immutable
class ScheduleTimes:
    """The times of a schedule. Making one raises ScheduleInvalid."""

    cron: str
    timezone: str

    def __post_init__(self) -> None:
        check_timezone(self.timezone)
        check_cron(self.cron)

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
