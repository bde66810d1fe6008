"""The artifacts of finished builds: what they take, and how they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import peewee

from storage.instants import to_micros
from storage.models import ArtifactRow, BuildRow
from storage.statements import Columns, Command, Query, first, slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from storage.artifact_files import ArtifactFiles
    from storage.database import Database

__all__ = ["ArtifactRetention", "KeptArtifacts"]

_BATCH = 500


@dataclass(frozen=True, slots=True)
class KeptArtifacts:
    """The artifacts of a finished build, ``bytes`` of them by their sizes, whether or not others share them."""

    build_id: int
    build_uuid: str
    finished_at: datetime
    bytes: int


_KEPT = Columns(KeptArtifacts, BuildRow.id, BuildRow.uuid, BuildRow.finished_at, BuildRow.artifact_bytes)


class ArtifactRetention:
    """Knows which builds have artifacts and lets those of finished ones go. Safe in any thread.

    Their rows go too; the build says that it had some.
    """

    def __init__(self, database: Database, files: ArtifactFiles) -> None:
        self._database = database
        self._files = files
        there = BuildRow.artifacts_expired_at.is_null()
        has_some = BuildRow.artifact_bytes.is_null(is_null=False)
        place = peewee.Tuple(BuildRow.finished_at, BuildRow.id)
        this = BuildRow.id == slot("build_id")
        self._bytes = Query(
            database,
            BuildRow.select(peewee.fn.COALESCE(peewee.fn.SUM(BuildRow.artifact_bytes), 0)).where(has_some, there),
            first,
        )
        self._kept = Query(
            database,
            BuildRow.select(*_KEPT.selected)
            .where(has_some, there, place > peewee.Tuple(slot("finished_at"), slot("id")))
            .order_by(BuildRow.finished_at, BuildRow.id)
            .limit(_BATCH),
            _KEPT,
        )
        self._expired = Query(
            database,
            BuildRow.select(BuildRow.id, BuildRow.uuid)
            .where(has_some, BuildRow.artifacts_expired_at.is_null(is_null=False))
            .order_by(BuildRow.id)
            .limit(_BATCH),
            lambda row: (int(row[0]), str(row[1])),
        )
        self._uuids = Query(
            database,
            ArtifactRow.select(ArtifactRow.uuid).join(BuildRow).where(BuildRow.uuid == slot("build_uuid")),
            lambda row: str(row[0]),
        )
        self._expire = Command(
            database, BuildRow.update({BuildRow.artifacts_expired_at: slot("now")}).where(this, there)
        )
        self._delete = Command(database, ArtifactRow.delete().where(ArtifactRow.build == slot("build_id")))
        self._forget = Command(database, BuildRow.update({BuildRow.artifact_bytes: None}).where(this))

    def bytes(self) -> int:
        """Return what all artifacts take."""
        return self._bytes.one() or 0

    def oldest_first(self) -> Iterator[KeptArtifacts]:
        """Yield the artifacts of finished builds, those of the build that finished first first."""
        after: dict[str, int] = {"finished_at": -1, "id": -1}
        while batch := self._kept.all(**after):
            yield from batch
            after = {"finished_at": to_micros(batch[-1].finished_at), "id": batch[-1].build_id}

    def expire(self, artifacts: Iterable[KeptArtifacts]) -> None:
        """Remove artifacts. Their builds say so first, so that whoever asks meanwhile is told why they are gone."""
        batch = list(artifacts)
        now = self._database.now()
        with self._database.write():
            for each in batch:
                self._expire.run(build_id=each.build_id, now=now)
        for each in batch:
            self._remove(each.build_id, each.build_uuid)

    def finish_expiring(self) -> None:
        """Remove what was expired by a process that did not live to remove it."""
        while batch := self._expired.all():
            for build_id, build_uuid in batch:
                self._remove(build_id, build_uuid)

    def remove_strays(self, before: datetime) -> int:
        """Remove the files from before an instant that no row names, and return how many they were.

        A younger one may be on its way: it is written before its row.
        """
        removed = 0
        for build_uuid in self._files.builds():
            old = set(self._files.older(build_uuid, before))
            strays = old - set(self._uuids.all(build_uuid=build_uuid)) if old else old
            self._files.remove(build_uuid, strays)
            removed += len(strays)
        return removed

    def _remove(self, build_id: int, build_uuid: str) -> None:
        self._files.remove_build(build_uuid)
        with self._database.write():
            self._delete.run(build_id=build_id)
            self._forget.run(build_id=build_id)
