"""Metering of leases, and usage of organizations in a window of time (wire-decisions.md, "Billing").

A window [start, end) has the leases and holds that started in it. A hold is another use of its lease's VM, after the
job's: it starts when the job ends, and has its own price. The kept disks of a day count in the window that has the
day's beginning, and cost once the day is over.
"""

from __future__ import annotations

import heapq
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import peewee

from storage.billing.settings import cost_cents
from storage.database.clock import DAY, SECOND, boot_id, to_micros
from storage.database.statements import Columns, Query, Write, slot, written
from storage.errors import UsageTooLong
from storage.models.builds import AttemptRow, BuildRow, JobRow
from storage.models.leases import DiskDayRow, HoldRow, LeaseRow
from storage.models.pipelines import PipelineRow
from storage.records.billing import BuildUsage, DayUsage, LeaseUsage, Usage, UsedBy
from storage.records.jobs import Shape

if TYPE_CHECKING:
    from datetime import datetime

    from storage.billing.budgets import BudgetCharges
    from storage.billing.settings import BillingSettings
    from storage.database.connection import Database


class Meter:
    """Measures and prices leases, inside the transactions of jobs and leases.

    A lease's time begins and ends with its command, however late the end is noticed.
    """

    def __init__(self, database: Database, billing: BillingSettings, budgets: BudgetCharges) -> None:
        self._database = database
        self._billing = billing
        self._budgets = budgets
        this = LeaseRow.id == slot("id")
        shape = Columns.of(Shape, LeaseRow)
        attempt = (AttemptRow.job == LeaseRow.job) & (AttemptRow.number == LeaseRow.attempt)
        self._lease = Query(
            database,
            lambda: (
                LeaseRow.select(*shape.selected, LeaseRow.started_at, AttemptRow.exited_at, LeaseRow.finished_at)
                .join(AttemptRow, peewee.JOIN.LEFT_OUTER, on=attempt)
                .where(this)
            ),
            lambda row: (shape(row[:3]), *row[3:]),
        )
        self._start = Query(
            database,
            lambda: LeaseRow.select(LeaseRow.started_at, LeaseRow.boot, LeaseRow.started_uptime).where(this),
            tuple,
        )
        self._close = Write(
            database,
            lambda: LeaseRow.update(
                {LeaseRow.finished_at: slot("finished_at"), LeaseRow.amount_cents: slot("amount_cents")}
            ).where(this),
        )

    def now(self, lease_id: int) -> int:
        """Return the current time for a lease, in microseconds since the epoch.

        It is the lease's start and the host's uptime since then, so that a clock that was set changes no bill. After a
        reboot that is impossible, and the wall clock counts.
        """
        started_at, boot, uptime = written(self._start.one(id=lease_id))
        if started_at is None or uptime is None or boot != boot_id():
            return self._database.now()
        by_uptime: int = started_at + self._database.uptime() - uptime
        return by_uptime

    def close(self, lease_id: int, *, billable: bool) -> None:
        """End a lease's time at its command's end if that is known, else now, and write its price.

        The price is 0 if the lease never ran a command or is not ``billable``, and no more than its budget has left.
        """
        shape, started_at, exited_at, ended_at = written(self._lease.one(id=lease_id))
        finished_at = ended_at if exited_at is None else exited_at
        if finished_at is None:
            finished_at = self.now(lease_id)
        amount_cents = 0
        if billable and started_at is not None:
            cents = cost_cents(self._billing, shape, max(0, finished_at - started_at) // SECOND)
            amount_cents = self._budgets.of_lease(lease_id, cents)
        self._close.run(id=lease_id, finished_at=finished_at, amount_cents=amount_cents)


_SLUG_UNLESS_DELETED = peewee.Case(None, [(PipelineRow.deleted_at.is_null(), PipelineRow.slug)])
_BUILD = Columns.of(
    UsedBy,
    BuildRow,
    pipeline_uuid=PipelineRow.uuid,
    pipeline_name=PipelineRow.name,
    pipeline_slug=(_SLUG_UNLESS_DELETED, str),
)


class _Uses:
    """The statements over leases or holds, whose rows have a start, an end and a price."""

    def __init__(self, database: Database, row: type[LeaseRow | HoldRow], uses: peewee.ModelSelect[Any]) -> None:
        seconds = peewee.fn.MAX(0, row.finished_at - row.started_at) / SECOND
        sums = (LeaseRow.cpu * seconds, LeaseRow.memory_gb * seconds, LeaseRow.disk_gb * seconds, row.amount_cents)
        started = (
            row.organization == slot("organization_id"),
            row.started_at >= slot("start"),
            row.started_at < slot("end"),
        )
        self.total = Query(
            database,
            lambda: uses.select(*(peewee.fn.COALESCE(peewee.fn.SUM(summed), 0) for summed in sums)).where(*started),
            lambda found: Usage(*found),
        )
        lease = Columns.of(
            LeaseUsage,
            row,
            vm=LeaseRow.uuid,
            provider=LeaseRow.provider,
            shape=Columns.of(Shape, LeaseRow),
            job_uuid=JobRow.uuid,
            job_name=JobRow.name,
            step_key=JobRow.step_key,
        )
        pairs: Columns[tuple[UsedBy, LeaseUsage]] = Columns(lambda build, lease: (build, lease), _BUILD, lease)
        self.each = Query(
            database,
            lambda: (
                uses.select(*pairs.selected)
                .join_from(row, JobRow)
                .join(BuildRow)
                .join(PipelineRow)
                .where(*started)
                .order_by(row.started_at, row.finished_at, row.id)
                .limit(slot("limit"))
            ),
            pairs,
        )


class UsageReport:
    """Sums of leases, holds and kept disks, and lists of leases and holds, in whole seconds.

    Safe in any thread.
    """

    MAX_LEASES = 10_000
    """Most leases in a breakdown."""

    MAX_DAYS = 366
    """Most days in a series."""

    def __init__(self, database: Database) -> None:
        self._leases = _Uses(database, LeaseRow, LeaseRow.select())
        self._holds = _Uses(database, HoldRow, HoldRow.select().join(LeaseRow))
        sums = (DiskDayRow.amount_cents, DiskDayRow.mb_seconds)
        self._disks = Query(
            database,
            lambda: DiskDayRow.select(*(peewee.fn.COALESCE(peewee.fn.SUM(each), 0) for each in sums)).where(
                DiskDayRow.organization == slot("organization_id"),
                DiskDayRow.day >= slot("start"),
                DiskDayRow.day < slot("end"),
            ),
            lambda found: Usage(0, 0, 0, *found),
        )

    def total(self, organization_id: int, start: datetime, end: datetime) -> Usage:
        """Return the usage of what started in [start, end); a lease that still runs counts as 0."""
        return self._sum(organization_id, to_micros(start), to_micros(end))

    def series(self, organization_id: int, start: datetime, end: datetime) -> list[DayUsage]:
        """Return `total` for each UTC day, from that of ``start`` to the last one that begins before ``end``.

        The first and last day count only within the window. Raises UsageTooLong for more than ``MAX_DAYS``.
        """
        first_day = start.astimezone(UTC).date()
        earliest, latest = to_micros(start), to_micros(end)
        midnights = range(earliest - earliest % DAY, latest, DAY)
        if len(midnights) > self.MAX_DAYS:
            raise UsageTooLong(f"the window has {len(midnights)} days, the most is {self.MAX_DAYS}: ask for fewer")
        return [
            DayUsage(
                first_day + timedelta(days=number),
                self._sum(organization_id, max(earliest, midnight), min(latest, midnight + DAY)),
            )
            for number, midnight in enumerate(midnights)
        ]

    def breakdown(self, organization_id: int, start: datetime, end: datetime) -> list[BuildUsage]:
        """Return the leases and holds that started in [start, end) by build.

        The build whose first lease started last comes first. Leases of deleted pipelines are included. Raises
        UsageTooLong for more than ``MAX_LEASES``.
        """
        window: dict[str, int] = {"start": to_micros(start), "end": to_micros(end), "limit": self.MAX_LEASES + 1}
        found = (kind.each.all(organization_id=organization_id, **window) for kind in (self._leases, self._holds))
        rows = list(heapq.merge(*found, key=lambda use: use[1].started_at))
        if len(rows) > self.MAX_LEASES:
            raise UsageTooLong(f"more than {self.MAX_LEASES} leases started in the window: ask for a shorter one")
        builds: dict[UsedBy, list[LeaseUsage]] = {}
        for build, lease in rows:
            builds.setdefault(build, []).append(lease)
        return [BuildUsage(build, tuple(leases)) for build, leases in reversed(builds.items())]

    def _sum(self, organization_id: int, start: int, end: int) -> Usage:
        window = {"organization_id": organization_id, "start": start, "end": end}
        of_vms = written(self._leases.total.one(**window)).plus(written(self._holds.total.one(**window)))
        return of_vms.plus(written(self._disks.one(**window)))
