"""Retention of the artifacts of finished builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, slot
from storage.files.retention import Retention
from storage.models import ArtifactRow, BuildRow

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.connection import Database
    from storage.files.artifacts import ArtifactFiles
    from storage.files.retention import KeptFiles


class ArtifactRetention(Retention):
    """Retention of artifacts. Safe in any thread.

    A build counts with the full size of its artifacts, even if it shares the bytes with another one. The rows are
    deleted with the files; the build's row keeps the instant of their expiry.
    """

    def __init__(self, database: Database, files: ArtifactFiles) -> None:
        super().__init__(database, BuildRow.artifact_bytes, BuildRow.artifacts_expired_at)
        self._files = files
        self._uuids = Query(
            database,
            ArtifactRow.select(ArtifactRow.uuid).join(BuildRow).where(BuildRow.uuid == slot("build_uuid")),
            lambda row: str(row[0]),
        )
        self._delete = Write(database, ArtifactRow.delete().where(ArtifactRow.build == slot("build_id")))

    def remove_orphans(self, before: datetime) -> int:
        """Remove the files without a row that are older than an instant; return how many.

        A newer file may be about to get its row, which is written after it.
        """
        removed = 0
        for build_uuid in self._files.builds():
            old = set(self._files.older(build_uuid, before))
            orphans = old - set(self._uuids.all(build_uuid=build_uuid)) if old else old
            self._files.remove(build_uuid, orphans)
            removed += len(orphans)
        return removed

    def _remove(self, kept: KeptFiles) -> None:
        self._files.remove_build(kept.build_uuid)
        with self._database.write():
            self._delete.run(build_id=kept.build_id)
