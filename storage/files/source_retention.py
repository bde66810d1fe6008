"""Retention of the source archives of finished builds, from which they can be built again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query
from storage.files.retention import MeasuredRetention
from storage.models import BuildRow

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.files.retention import KeptFiles
    from storage.files.sources import Sources


class SourceRetention(MeasuredRetention):
    """Retention of source archives. Never touches an unfinished build's. Safe in any thread.

    A build counts with the full size of its archive, even if it shares the bytes with the build that it repeats.
    """

    def __init__(self, database: Database, sources: Sources) -> None:
        has_source = BuildRow.has_source == 1
        super().__init__(database, BuildRow.source_bytes, BuildRow.source_expired_at, has_source)
        self._sources = sources
        uuids = BuildRow.select(BuildRow.uuid)
        self._unfinished = Query(database, uuids.where(BuildRow.finished_at.is_null()), lambda row: str(row[0]))
        self._kept_uuids = Query(
            database, uuids.where(has_source, BuildRow.source_expired_at.is_null()), lambda row: str(row[0])
        )

    def owners(self) -> set[str]:
        """Return the UUIDs of the builds that keep their archive, or have not finished."""
        return {*self._unfinished.all(), *self._kept_uuids.all()}

    def _bytes_of(self, build_uuid: str) -> int:
        return self._sources.bytes_of(build_uuid)

    def _remove(self, kept: KeptFiles) -> None:
        self._sources.remove(kept.build_uuid)
