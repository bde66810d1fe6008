"""Progress of the trace export, so that a restart loses no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.instants import to_micros
from storage.database.statements import Columns, Query, Write, slot
from storage.models import TracesSentRow

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.connection import Database

_ONLY = 1


class TracesSent:
    """The instant at which the end of the last build sent was recorded. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        until: Columns[datetime] = Columns(lambda at: at, TracesSentRow.until)
        self._get = Query(database, TracesSentRow.select(*until.selected).where(TracesSentRow.id == _ONLY), until)
        self._set = Write(
            database,
            TracesSentRow.insert({TracesSentRow.id: _ONLY, TracesSentRow.until: slot("until")}).on_conflict_replace(),
        )

    def until(self) -> datetime | None:
        """Return the instant up to which traces were sent; None if none was sent."""
        return self._get.one()

    def note(self, until: datetime) -> None:
        """Note that the traces of all builds whose end was recorded up to an instant were sent."""
        with self._database.write():
            self._set.run(until=to_micros(until))
