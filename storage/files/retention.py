"""Retention of the files that finished builds keep on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import peewee

from storage.data_classes import immutable
from storage.database.instants import to_micros
from storage.database.statements import Columns, Query, Write, first, slot
from storage.models import BuildRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import Any

    from storage.database.connection import Database

_BATCH = 500
"""Most builds per statement or transaction, so that a million builds do not block other writers."""


@immutable
class KeptFiles:
    """The files of one kind that a finished build keeps, and their size in bytes."""

    build_id: int
    build_uuid: str
    finished_at: datetime
    bytes: int


class Retention(ABC):
    """Retention of one kind of files of finished builds. Safe in any thread.

    A build's row holds the size of its files, null if it has none, and the instant of their expiry.
    """

    def __init__(self, database: Database, size: peewee.Field[Any], expired_at: peewee.Field[Any]) -> None:
        """Set the columns of a build's row that hold the size of its files and the instant of their expiry."""
        self._database = database
        kept = Columns(KeptFiles, BuildRow.id, BuildRow.uuid, BuildRow.finished_at, size)
        builds = BuildRow.select(*kept.selected)
        has_some, not_expired = size.is_null(is_null=False), expired_at.is_null()
        place = peewee.Tuple(BuildRow.finished_at, BuildRow.id)
        this = BuildRow.id == slot("id")
        self._bytes = Query(
            database, BuildRow.select(peewee.fn.COALESCE(peewee.fn.SUM(size), 0)).where(has_some, not_expired), first
        )
        self._kept = Query(
            database,
            builds.where(has_some, not_expired, place > peewee.Tuple(slot("finished_at"), slot("id")))
            .order_by(BuildRow.finished_at, BuildRow.id)
            .limit(_BATCH),
            kept,
        )
        self._expired = Query(
            database,
            builds.where(has_some, expired_at.is_null(is_null=False)).order_by(BuildRow.id).limit(_BATCH),
            kept,
        )
        self._expire = Write(
            database,
            BuildRow.update({expired_at: slot("now")}).where(
                this, not_expired, BuildRow.finished_at.is_null(is_null=False)
            ),
        )
        self._forget = Write(database, BuildRow.update({size: None}).where(this))

    def bytes(self) -> int:
        """Return the total size of all builds' files, in bytes."""
        return self._bytes.one() or 0

    def oldest_first(self) -> Iterator[KeptFiles]:
        """Yield the files of finished builds, earliest end first; some may be removed in the meantime."""
        after: dict[str, int] = {"finished_at": -1, "id": -1}
        while batch := self._kept.all(**after):
            yield from batch
            after = {"finished_at": to_micros(batch[-1].finished_at), "id": batch[-1].build_id}

    def expire(self, kept: Iterable[KeptFiles]) -> None:
        """Remove the files of builds, after marking them as expired, so that readers learn why they are gone.

        A build that was retried meanwhile keeps its files.
        """
        batch = list(kept)
        now = self._database.now()
        with self._database.write():
            going = [each for each in batch if self._expire.run(id=each.build_id, now=now)]
        self._remove_all(going)

    def finish_expiring(self) -> None:
        """Remove the files that an earlier process marked as expired and did not remove before it died."""
        while batch := self._expired.all():
            self._remove_all(batch)

    @abstractmethod
    def _remove(self, kept: KeptFiles) -> None:
        """Remove a build's files from disk; missing ones are ignored."""

    def _remove_all(self, batch: Sequence[KeptFiles]) -> None:
        for each in batch:
            self._remove(each)
        with self._database.write():
            for each in batch:
                self._forget.run(id=each.build_id)


class MeasuredRetention(Retention):
    """Retention of files that are measured on disk once, after their build's end. Safe in any thread."""

    def __init__(
        self,
        database: Database,
        size: peewee.Field[Any],
        expired_at: peewee.Field[Any],
        *has_files: peewee.Expression,
    ) -> None:
        """Set the columns, and the conditions of a build that may have such files."""
        super().__init__(database, size, expired_at)
        self._to_measure = Query(
            database,
            BuildRow.select(BuildRow.uuid)
            .where(*has_files, BuildRow.finished_at.is_null(is_null=False), size.is_null(), expired_at.is_null())
            .order_by(BuildRow.id)
            .limit(_BATCH),
            lambda row: str(row[0]),
        )
        self._note = Write(database, BuildRow.update({size: slot("bytes")}).where(BuildRow.uuid == slot("uuid")))

    def measure(self) -> None:
        """Note the size of the files of every build that finished since the last call."""
        while batch := self._to_measure.all():
            taken = {uuid: self._bytes_of(uuid) for uuid in batch}
            with self._database.write():
                for uuid, size in taken.items():
                    self._note.run(uuid=uuid, bytes=size)

    @abstractmethod
    def _bytes_of(self, build_uuid: str) -> int:
        """Return the size of a build's files on disk; 0 if it has none."""
