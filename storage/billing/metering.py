"""Metering of leases: from seconds to cents (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.billing.prices import cost_cents
from storage.database.clock import boot_id
from storage.database.instants import SECOND
from storage.database.statements import Columns, Query, Write, slot, written
from storage.models import AttemptRow, LeaseRow
from storage.records import Shape

if TYPE_CHECKING:
    from storage.billing.settings import BillingSettings
    from storage.database.connection import Database


class Meter:
    """Measures and prices leases, inside the transactions of jobs and leases.

    A lease's time begins and ends with its command, however late the end is noticed.
    """

    def __init__(self, database: Database, billing: BillingSettings) -> None:
        self._database = database
        self._billing = billing
        this = LeaseRow.id == slot("id")
        shape = Columns.of(Shape, LeaseRow)
        attempt = (AttemptRow.job == LeaseRow.job) & (AttemptRow.number == LeaseRow.attempt)
        self._lease = Query(
            database,
            LeaseRow.select(*shape.selected, LeaseRow.started_at, AttemptRow.exited_at, LeaseRow.finished_at)
            .join(AttemptRow, peewee.JOIN.LEFT_OUTER, on=attempt)
            .where(this),
            lambda row: (shape(row[:3]), *row[3:]),
        )
        self._start = Query(
            database,
            LeaseRow.select(LeaseRow.started_at, LeaseRow.boot, LeaseRow.started_uptime).where(this),
            tuple,
        )
        self._close = Write(
            database,
            LeaseRow.update(
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

        The price is 0 if the lease never ran a command or is not ``billable``.
        """
        shape, started_at, exited_at, ended_at = written(self._lease.one(id=lease_id))
        finished_at = ended_at if exited_at is None else exited_at
        if finished_at is None:
            finished_at = self.now(lease_id)
        amount_cents = 0
        if billable and started_at is not None:
            amount_cents = cost_cents(self._billing, shape, max(0, finished_at - started_at) // SECOND)
        self._close.run(id=lease_id, finished_at=finished_at, amount_cents=amount_cents)
