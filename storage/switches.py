"""Switches that the owner turns by hand, while the service runs or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.models import SwitchRow
from storage.statements import Columns, Command, Query, slot

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["Switches"]

_DRAINED = "drained"


class Switches:
    """What the owner has turned on. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        this = SwitchRow.name == slot("name")
        instant: Columns[datetime] = Columns(lambda at: at, SwitchRow.turned_on_at)
        self._get = Query(database, SwitchRow.select(*instant.selected).where(this), instant)
        self._on = Command(
            database,
            SwitchRow.insert({SwitchRow.name: slot("name"), SwitchRow.turned_on_at: slot("now")}).on_conflict_ignore(),
        )
        self._off = Command(database, SwitchRow.delete().where(this))

    def drained_since(self) -> datetime | None:
        """Return since when no job gets a VM, None where jobs do."""
        return self._get.one(name=_DRAINED)

    def drain(self) -> bool:
        """Have no job get a VM until `resume`; False where that was so before."""
        with self._database.write():
            return self._on.run(name=_DRAINED, now=self._database.now()) == 1

    def resume(self) -> bool:
        """Have jobs get VMs again; False where they did before."""
        with self._database.write():
            return self._off.run(name=_DRAINED) == 1
