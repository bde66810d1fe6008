"""State of the service itself: whether it is drained, and up to where traces were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.clock import to_micros
from storage.database.statements import Columns, Query, Write, slot
from storage.models.service import SwitchRow, TracesSentRow

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.connection import Database


_DRAINED = "drained"


class Switches:
    """The switches that are on. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        this = SwitchRow.name == slot("name")
        instant: Columns[datetime] = Columns(lambda at: at, SwitchRow.turned_on_at)
        self._get = Query(database, lambda: SwitchRow.select(*instant.selected).where(this), instant)
        self._on = Write(
            database,
            lambda: SwitchRow.insert(
                {SwitchRow.name: slot("name"), SwitchRow.turned_on_at: slot("now")}
            ).on_conflict_ignore(),
        )
        self._off = Write(database, lambda: SwitchRow.delete().where(this))

    def drained_since(self) -> datetime | None:
        """Return since when the service is drained, so that no job gets a VM; None if it is not."""
        return self._get.one(name=_DRAINED)

    def drain(self) -> bool:
        """Drain: no job gets a VM until `resume`. False if the service was drained already."""
        with self._database.write():
            return self._on.run(name=_DRAINED, now=self._database.now()) == 1

    def resume(self) -> bool:
        """End the drain; False if the service was not drained."""
        with self._database.write():
            return self._off.run(name=_DRAINED) == 1


_ONLY = 1


class TracesSent:
    """The instant at which the end of the last build sent was recorded. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        until: Columns[datetime] = Columns(lambda at: at, TracesSentRow.until)
        self._get = Query(
            database, lambda: TracesSentRow.select(*until.selected).where(TracesSentRow.id == _ONLY), until
        )
        self._set = Write(
            database,
            lambda: TracesSentRow.insert(
                {TracesSentRow.id: _ONLY, TracesSentRow.until: slot("until")}
            ).on_conflict_replace(),
        )

    def until(self) -> datetime | None:
        """Return the instant up to which traces were sent; None if none was sent."""
        return self._get.one()

    def note(self, until: datetime) -> None:
        """Note that the traces of all builds whose end was recorded up to an instant were sent."""
        with self._database.write():
            self._set.run(until=to_micros(until))
