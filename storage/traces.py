"""How far the traces of builds have been sent, so that no restart leaves one out."""

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
    """The instant at which the build ended whose trace was sent last. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        until: Columns[datetime] = Columns(lambda at: at, TracesSentRow.until)
        self._get = Query(database, TracesSentRow.select(*until.selected).where(TracesSentRow.id == _ONLY), until)
        self._set = Command(
            database,
            TracesSentRow.insert({TracesSentRow.id: _ONLY, TracesSentRow.until: slot("until")}).on_conflict_replace(),
        )

    def until(self) -> datetime | None:
        """Return how far they are sent, None where none ever was."""
        return self._get.one()

    def note(self, until: datetime) -> None:
        """Note that the traces of all builds are sent that had ended by then."""
        with self._database.write():
            self._set.run(until=to_micros(until))
