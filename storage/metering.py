"""From a VM's seconds to cents (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.billing import BillingSettings, cost_cents
from storage.clock import boot_id
from storage.instants import SECOND
from storage.models import LeaseRow
from storage.records import Shape
from storage.statements import Columns, Command, Query, slot, written

if TYPE_CHECKING:
    from storage.database import Database

__all__ = ["Meter"]


class Meter:
    """Prices leases, inside the transactions that end jobs and attempts."""

    def __init__(self, database: Database, billing: BillingSettings) -> None:
        self._database = database
        self._billing = billing
        this = LeaseRow.id == slot("id")
        shape = Columns(Shape, LeaseRow.cpu, LeaseRow.memory_gb, LeaseRow.disk_gb)
        self._lease = Query(
            database,
            LeaseRow.select(
                *shape.selected, LeaseRow.started_at, LeaseRow.finished_at, LeaseRow.boot, LeaseRow.started_uptime
            ).where(this),
            lambda row: (shape(row[:3]), *row[3:]),
        )
        self._close = Command(
            database,
            LeaseRow.update(
                {LeaseRow.finished_at: slot("finished_at"), LeaseRow.amount_cents: slot("amount_cents")}
            ).where(this),
        )

    def close(self, lease_id: int, *, billable: bool) -> None:
        """End a lease's time, now unless its VM is gone already, and write its price.

        The price is 0 where the lease never ran a command, or is the service's to pay. A wall clock that jumped ahead
        meanwhile adds nothing, unless the host was booted since, when nobody knows.
        """
        shape, started_at, ended_at, boot, started_uptime = written(self._lease.one(id=lease_id))
        finished_at = self._database.now() if ended_at is None else ended_at
        if ended_at is None and started_at is not None and boot == boot_id():
            finished_at = min(finished_at, started_at + self._database.uptime() - started_uptime)
        amount_cents = 0
        if billable and started_at is not None:
            amount_cents = cost_cents(self._billing, shape, max(0, finished_at - started_at) // SECOND)
        self._close.run(id=lease_id, finished_at=finished_at, amount_cents=amount_cents)
