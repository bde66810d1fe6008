"""What organizations used within a window of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.instants import to_micros
from storage.models import LeaseRow
from storage.records import Usage
from storage.statements import Query, slot, written

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["UsageReport"]

_MICROSECONDS = 1_000_000


class UsageReport:
    """Sums over leases. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        seconds = peewee.fn.MAX(0, LeaseRow.finished_at - LeaseRow.started_at) / _MICROSECONDS
        sums = (LeaseRow.cpu * seconds, LeaseRow.memory_gb * seconds, LeaseRow.disk_gb * seconds, LeaseRow.amount_cents)
        self._total = Query(
            database,
            LeaseRow.select(*(peewee.fn.COALESCE(peewee.fn.SUM(summed), 0) for summed in sums)).where(
                LeaseRow.organization == slot("organization_id"),
                LeaseRow.started_at >= slot("start"),
                LeaseRow.started_at < slot("end"),
            ),
            lambda row: Usage(*row),
        )

    def total(self, organization_id: int, start: datetime, end: datetime) -> Usage:
        """Return the use of the leases that started in [start, end); those that still run count as nothing yet."""
        return written(self._total.one(organization_id=organization_id, start=to_micros(start), end=to_micros(end)))
