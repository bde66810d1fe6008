"""What organizations used within a window of time: the leases that started in [start, end)."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import peewee

from storage.errors import UsageTooLong
from storage.instants import to_micros
from storage.models import BuildRow, JobRow, LeaseRow, PipelineRow
from storage.records import BuildUsage, DayUsage, LeaseUsage, Shape, Usage, UsedBy
from storage.statements import Columns, Query, slot, written

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["UsageReport"]

_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_LEASE = Columns(
    LeaseUsage,
    LeaseRow.uuid,
    Columns(Shape, LeaseRow.cpu, LeaseRow.memory_gb, LeaseRow.disk_gb),
    LeaseRow.amount_cents,
    LeaseRow.started_at,
    LeaseRow.finished_at,
    JobRow.uuid,
    JobRow.name,
    JobRow.step_key,
)
_SLUG_WHILE_THERE = peewee.Case(None, [(PipelineRow.deleted_at.is_null(), PipelineRow.slug)])
_BUILD = Columns(
    UsedBy,
    BuildRow.uuid,
    BuildRow.external_id,
    BuildRow.number,
    PipelineRow.uuid,
    PipelineRow.name,
    (_SLUG_WHILE_THERE, str),
)


class UsageReport:
    """Sums over leases, in whole seconds a lease, and their list. Safe in any thread."""

    MOST_LEASES = 10_000
    """How many leases a breakdown lists at most."""

    MOST_DAYS = 366
    """How many days a series has at most."""

    def __init__(self, database: Database) -> None:
        seconds = peewee.fn.MAX(0, LeaseRow.finished_at - LeaseRow.started_at) / _MICROSECONDS
        sums = (LeaseRow.cpu * seconds, LeaseRow.memory_gb * seconds, LeaseRow.disk_gb * seconds, LeaseRow.amount_cents)
        started = (
            LeaseRow.organization == slot("organization_id"),
            LeaseRow.started_at >= slot("start"),
            LeaseRow.started_at < slot("end"),
        )
        self._total = Query(
            database,
            LeaseRow.select(*(peewee.fn.COALESCE(peewee.fn.SUM(summed), 0) for summed in sums)).where(*started),
            lambda row: Usage(*row),
        )
        uses = Columns(_pair, _BUILD, _LEASE)
        self._leases = Query(
            database,
            LeaseRow.select(*uses.selected)
            .join(JobRow)
            .join(BuildRow)
            .join(PipelineRow)
            .where(*started)
            .order_by(LeaseRow.started_at, LeaseRow.finished_at, LeaseRow.id)
            .limit(slot("limit")),
            uses,
        )

    def total(self, organization_id: int, start: datetime, end: datetime) -> Usage:
        """Return the use of the leases that started in [start, end); those that still run count as nothing yet."""
        return self._sum(organization_id, to_micros(start), to_micros(end))

    def series(self, organization_id: int, start: datetime, end: datetime) -> list[DayUsage]:
        """Return `total` day by day in UTC, from the day of ``start`` to the last that holds a moment before ``end``.

        The outer days hold what is in the window of them. Raises UsageTooLong for more than ``MOST_DAYS``.
        """
        first_day = start.astimezone(UTC).date()
        earliest, latest = to_micros(start), to_micros(end)
        midnights = range(earliest - earliest % _DAY, latest, _DAY)
        if len(midnights) > self.MOST_DAYS:
            raise UsageTooLong(f"it is of {len(midnights)} days, at most {self.MOST_DAYS} are listed: ask for fewer")
        return [
            DayUsage(
                first_day + timedelta(days=number),
                self._sum(organization_id, max(earliest, midnight), min(latest, midnight + _DAY)),
            )
            for number, midnight in enumerate(midnights)
        ]

    def breakdown(self, organization_id: int, start: datetime, end: datetime) -> list[BuildUsage]:
        """Return the leases that started in [start, end) by their builds, the build that started last first.

        Leases of deleted pipelines are among them. Raises UsageTooLong for more than ``MOST_LEASES``.
        """
        rows = self._leases.all(
            organization_id=organization_id, start=to_micros(start), end=to_micros(end), limit=self.MOST_LEASES + 1
        )
        if len(rows) > self.MOST_LEASES:
            raise UsageTooLong(f"more than {self.MOST_LEASES} leases started in it: ask for a shorter window")
        builds: dict[UsedBy, list[LeaseUsage]] = {}
        for build, lease in rows:
            builds.setdefault(build, []).append(lease)
        return [BuildUsage(build, tuple(leases)) for build, leases in reversed(builds.items())]

    def _sum(self, organization_id: int, start: int, end: int) -> Usage:
        return written(self._total.one(organization_id=organization_id, start=start, end=end))


def _pair(build: UsedBy, lease: LeaseUsage) -> tuple[UsedBy, LeaseUsage]:
    return build, lease
