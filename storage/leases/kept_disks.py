"""The disks of failed jobs that are kept for some days (engine.md, "Kept disks")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models.leases import KeptDiskRow, SnapshotRow
from storage.records.leases import KeptDisk, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.database.connection import Database
    from storage.records.builds import Build

_KEPT = Columns.of(KeptDisk, KeptDiskRow, bytes=SnapshotRow.bytes)
_SNAPSHOT = Columns.of(Snapshot, SnapshotRow)


class KeptDisks:
    """Names the snapshots of failed jobs that people may still look into. Safe in any thread.

    `Snapshots.unneeded` decides when a snapshot may be removed: neither these nor the disks below them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        of_snapshot = KeptDiskRow.snapshot == SnapshotRow.name
        self._all = Query(
            database,
            lambda: (
                KeptDiskRow.select(*_KEPT.selected)
                .join(SnapshotRow, on=of_snapshot)
                .order_by(KeptDiskRow.created_at, KeptDiskRow.snapshot)
            ),
            _KEPT,
        )
        self._of_job = Query(
            database,
            lambda: (
                SnapshotRow.select(*_SNAPSHOT.selected)
                .join(KeptDiskRow, on=of_snapshot)
                .where(SnapshotRow.job == slot("job_id"))
                .order_by(SnapshotRow.id.desc())
                .limit(1)
            ),
            _SNAPSHOT,
        )
        self._insert = Write(database, lambda: insert_into(KeptDiskRow).on_conflict_ignore())
        self._drop = Write(database, lambda: KeptDiskRow.delete().where(KeptDiskRow.snapshot == slot("name")))

    def keep(self, name: str, build: Build) -> None:
        """Keep the snapshot of a failed job of a build; one that is kept already stays as it is."""
        with self._database.write():
            self._insert.run(
                snapshot=name,
                organization_id=build.organization_id,
                pipeline_id=build.pipeline_id,
                created_at=self._database.now(),
            )

    def all(self) -> list[KeptDisk]:
        """Return every kept disk, oldest first."""
        return self._all.all()

    def of_job(self, job_id: int) -> Snapshot | None:
        """Return the snapshot that a job has left last, if it is kept."""
        return self._of_job.one(job_id=job_id)

    def drop(self, names: Iterable[str]) -> None:
        """Keep these snapshots no longer; missing ones are ignored."""
        with self._database.write():
            for name in names:
                self._drop.run(name=name)
