"""What finished builds keep on the disk: how much it is, and how it goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import peewee

from storage.instants import to_micros
from storage.models import BuildRow
from storage.statements import Columns, Command, Query, first, slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import Any

    from storage.database import Database

__all__ = ["BATCH", "Kept", "Retention"]

BATCH = 500
"""How many builds a statement or a transaction is about at most, so that a million of them hold up nobody."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a finished build keeps of one kind, ``bytes`` of it."""

    build_id: int
    build_uuid: str
    finished_at: datetime
    bytes: int


class Retention(ABC):
    """Knows what builds keep of one kind, and lets that of finished ones go. Safe in any thread.

    A build's row says how many bytes it keeps, null where it keeps nothing, and since when it may keep nothing.
    """

    def __init__(self, database: Database, size: peewee.Field[Any], expired_at: peewee.Field[Any]) -> None:
        """Name the columns of a build's row that say how much it keeps and when that expired."""
        self._database = database
        kept = Columns(Kept, BuildRow.id, BuildRow.uuid, BuildRow.finished_at, size)
        builds = BuildRow.select(*kept.selected)
        has_some, there = size.is_null(is_null=False), expired_at.is_null()
        place = peewee.Tuple(BuildRow.finished_at, BuildRow.id)
        this = BuildRow.id == slot("id")
        self._bytes = Query(
            database, BuildRow.select(peewee.fn.COALESCE(peewee.fn.SUM(size), 0)).where(has_some, there), first
        )
        self._kept = Query(
            database,
            builds.where(has_some, there, place > peewee.Tuple(slot("finished_at"), slot("id")))
            .order_by(BuildRow.finished_at, BuildRow.id)
            .limit(BATCH),
            kept,
        )
        self._expired = Query(
            database,
            builds.where(has_some, expired_at.is_null(is_null=False)).order_by(BuildRow.id).limit(BATCH),
            kept,
        )
        self._expire = Command(database, BuildRow.update({expired_at: slot("now")}).where(this, there))
        self._forget = Command(database, BuildRow.update({size: None}).where(this))

    def bytes(self) -> int:
        """Return what all builds keep."""
        return self._bytes.one() or 0

    def oldest_first(self) -> Iterator[Kept]:
        """Yield what finished builds keep, that of the build that finished first first; some may go meanwhile."""
        after: dict[str, int] = {"finished_at": -1, "id": -1}
        while batch := self._kept.all(**after):
            yield from batch
            after = {"finished_at": to_micros(batch[-1].finished_at), "id": batch[-1].build_id}

    def expire(self, kept: Iterable[Kept]) -> None:
        """Remove what builds keep. Their rows say so first, so that whoever asks meanwhile is told why it is gone."""
        batch = list(kept)
        now = self._database.now()
        with self._database.write():
            for each in batch:
                self._expire.run(id=each.build_id, now=now)
        self._let_go(batch)

    def finish_expiring(self) -> None:
        """Remove what was expired by a process that did not live to remove it."""
        while batch := self._expired.all():
            self._let_go(batch)

    @abstractmethod
    def _remove(self, kept: Kept) -> None:
        """Take what a build keeps off the disk; what is gone already is fine."""

    def _let_go(self, batch: Sequence[Kept]) -> None:
        for each in batch:
            self._remove(each)
        with self._database.write():
            for each in batch:
                self._forget.run(id=each.build_id)
