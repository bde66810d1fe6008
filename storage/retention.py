"""The logs of finished builds: what they take, and how they go (engine.md, "Logs")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import peewee

from storage.instants import to_micros
from storage.models import BuildRow
from storage.statements import Columns, Command, Query, first, slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from storage.database import Database
    from storage.logs import LogFiles

__all__ = ["KeptLogs", "LogRetention"]

_BATCH = 500


@dataclass(frozen=True, slots=True)
class KeptLogs:
    """The logs of a finished build, ``bytes`` of them on the disk."""

    build_id: int
    build_uuid: str
    finished_at: datetime
    bytes: int


_KEPT = Columns(KeptLogs, BuildRow.id, BuildRow.uuid, BuildRow.finished_at, BuildRow.log_bytes)


class LogRetention:
    """Knows which logs there are and lets them go; an unfinished build's it never touches. Safe in any thread.

    The disk is walked once a build, after its end, and every transaction is about a bounded number of builds, so that a
    million of them hold up nobody.
    """

    def __init__(self, database: Database, logs: LogFiles) -> None:
        self._database = database
        self._logs = logs
        there = BuildRow.logs_expired_at.is_null()
        measured = BuildRow.log_bytes.is_null(is_null=False)
        finished = BuildRow.finished_at.is_null(is_null=False)
        place = peewee.Tuple(BuildRow.finished_at, BuildRow.id)
        self._to_measure = self._uuids(finished, BuildRow.log_bytes.is_null(), there)
        self._expired = self._uuids(measured, BuildRow.logs_expired_at.is_null(is_null=False))
        self._bytes = Query(
            database,
            BuildRow.select(peewee.fn.COALESCE(peewee.fn.SUM(BuildRow.log_bytes), 0)).where(measured, there),
            first,
        )
        self._kept = Query(
            database,
            BuildRow.select(*_KEPT.selected)
            .where(measured, there, place > peewee.Tuple(slot("finished_at"), slot("id")))
            .order_by(BuildRow.finished_at, BuildRow.id)
            .limit(_BATCH),
            _KEPT,
        )
        this = BuildRow.uuid == slot("uuid")
        self._note = Command(database, BuildRow.update({BuildRow.log_bytes: slot("bytes")}).where(this))
        self._expire = Command(
            database,
            BuildRow.update({BuildRow.logs_expired_at: slot("now")}).where(this, there),
        )
        self._known = Query(database, BuildRow.select(BuildRow.id).where(this), first)

    def measure(self) -> None:
        """Note what the logs take of every build that finished since this was last done."""
        while batch := self._to_measure.all():
            self._write({uuid: self._logs.bytes_of(uuid) for uuid in batch})

    def bytes(self) -> int:
        """Return what all measured logs take."""
        return self._bytes.one() or 0

    def oldest_first(self) -> Iterator[KeptLogs]:
        """Yield the measured logs, those of the build that finished first first; they may go meanwhile."""
        after: dict[str, int] = {"finished_at": -1, "id": -1}
        while batch := self._kept.all(**after):
            yield from batch
            after = {"finished_at": to_micros(batch[-1].finished_at), "id": batch[-1].build_id}

    def expire(self, logs: Iterable[KeptLogs]) -> None:
        """Remove logs. Their builds say so first, so that whoever reads meanwhile is told why they are gone."""
        batch = [each.build_uuid for each in logs]
        now = self._database.now()
        with self._database.write():
            for uuid in batch:
                self._expire.run(uuid=uuid, now=now)
        self._remove(batch)

    def finish_expiring(self) -> None:
        """Remove what was expired by a process that did not live to remove it."""
        while batch := self._expired.all():
            self._remove(batch)

    def remove_strays(self) -> list[str]:
        """Remove the logs of builds that the storage knows nothing of; return the names that they had."""
        strays = [name for name in self._logs.builds() if self._known.one(uuid=name) is None]
        for name in strays:
            self._logs.remove(name)
        return strays

    def _remove(self, batch: Sequence[str]) -> None:
        for uuid in batch:
            self._logs.remove(uuid)
        self._write(dict.fromkeys(batch))

    def _write(self, taken: Mapping[str, int | None]) -> None:
        with self._database.write():
            for uuid, size in taken.items():
                self._note.run(uuid=uuid, bytes=size)

    def _uuids(self, *where: peewee.Expression) -> Query[str]:
        query = BuildRow.select(BuildRow.uuid).where(*where).order_by(BuildRow.id).limit(_BATCH)
        return Query(self._database, query, lambda row: str(row[0]))
