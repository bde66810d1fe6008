"""Progress of the trace export, so that a restart loses no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.instants import to_micros
from storage.models import TracesSentRow
from storage.statements import Columns, Command, Query, slot

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["TracesSent"]

_ONLY = 1


class TracesSent:
    """The end of the build whose trace was sent last. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        until: Columns[datetime] = Columns(lambda at: at, TracesSentRow.until)
        self._get = Query(database, TracesSentRow.select(*until.selected).where(TracesSentRow.id == _ONLY), until)
        self._set = Command(
            database,
            TracesSentRow.insert({TracesSentRow.id: _ONLY, TracesSentRow.until: slot("until")}).on_conflict_replace(),
        )

    def until(self) -> datetime | None:
        """Return the instant up to which traces were sent; None if none was sent."""
        return self._get.one()

    def note(self, until: datetime) -> None:
        """Note that the traces of all builds that ended up to an instant were sent."""
        with self._database.write():
            self._set.run(until=to_micros(until))
