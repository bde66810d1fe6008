"""From a VM's seconds to cents (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.billing import Rates, cost_cents
from storage.models import LeaseRow
from storage.records import Shape
from storage.statements import Columns, Command, Query, slot

if TYPE_CHECKING:
    from storage.database import Database

__all__ = ["Meter"]

_MICROSECONDS = 1_000_000


class Meter:
    """Prices leases, inside the transactions that end jobs and attempts."""

    def __init__(self, database: Database, rates: Rates) -> None:
        self._database = database
        self._rates = rates
        running = (LeaseRow.id == slot("id")) & LeaseRow.finished_at.is_null()
        shape = Columns(Shape, LeaseRow.cpu, LeaseRow.memory_gb, LeaseRow.disk_gb)
        self._running = Query(
            database,
            LeaseRow.select(*shape.selected, LeaseRow.started_at).where(running),
            lambda row: (shape(row[:3]), row[3]),
        )
        self._close = Command(
            database,
            LeaseRow.update({LeaseRow.finished_at: slot("now"), LeaseRow.amount_cents: slot("amount_cents")}).where(
                running
            ),
        )

    def close(self, lease_id: int, *, billable: bool) -> None:
        """End a lease's time now and write its price, 0 where it never ran a command or is the service's to pay."""
        lease = self._running.one(id=lease_id)
        if lease is None:
            return
        shape, started_at = lease
        now = self._database.now()
        amount_cents = 0
        if billable and started_at is not None:
            amount_cents = cost_cents(self._rates, shape, max(0, now - started_at) // _MICROSECONDS)
        self._close.run(id=lease_id, now=now, amount_cents=amount_cents)
