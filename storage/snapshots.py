"""Snapshots: the disks of jobs that providers keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.models import BuildRow, JobRow, SnapshotRow
from storage.records import Snapshot
from storage.statements import Columns, Command, Query, insert_into, slot

if TYPE_CHECKING:
    from storage.database import Database

__all__ = ["Snapshots"]

_SNAPSHOT = Columns(Snapshot, SnapshotRow.name, SnapshotRow.job, SnapshotRow.provider, SnapshotRow.created_at)


class Snapshots:
    """What the providers' stores hold, by name. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        snapshots = SnapshotRow.select(*_SNAPSHOT.selected)
        self._of_job = Query(
            database,
            snapshots.where(SnapshotRow.job == slot("job_id")).order_by(SnapshotRow.id.desc()).limit(1),
            _SNAPSHOT,
        )
        self._all = Query(database, snapshots.order_by(SnapshotRow.id), _SNAPSHOT)
        self._of_finished_builds = Query(
            database,
            snapshots.join(JobRow)
            .join(BuildRow)
            .where(BuildRow.finished_at.is_null(is_null=False))
            .order_by(SnapshotRow.id),
            _SNAPSHOT,
        )
        self._insert = Command(database, insert_into(SnapshotRow).on_conflict_replace())
        self._remove = Command(database, SnapshotRow.delete().where(SnapshotRow.name == slot("name")))

    def add(self, name: str, job_id: int, provider: str) -> None:
        """Note that a provider keeps a job's disk under ``name``; a name that is there already is noted anew."""
        with self._database.write():
            self._insert.run(name=name, job_id=job_id, provider=provider, created_at=self._database.now())

    def of_job(self, job_id: int) -> Snapshot | None:
        """Return the latest snapshot of a job's disk."""
        return self._of_job.one(job_id=job_id)

    def all(self) -> list[Snapshot]:
        """Return every snapshot, oldest first."""
        return self._all.all()

    def of_finished_builds(self) -> list[Snapshot]:
        """Return the snapshots whose builds are terminal, oldest first."""
        return self._of_finished_builds.all()

    def remove(self, name: str) -> None:
        """Forget a snapshot; unknown names are fine."""
        with self._database.write():
            self._remove.run(name=name)
