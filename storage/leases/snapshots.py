"""Snapshots: disks of jobs that providers keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models import BuildRow, CacheRow, EdgeRow, JobRow, SnapshotRow
from storage.records import EdgeKind, Snapshot

if TYPE_CHECKING:
    from storage.database.connection import Database

_SNAPSHOT = Columns.of(Snapshot, SnapshotRow)


class Snapshots:
    """The snapshots in the providers' stores, by name. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        snapshots = SnapshotRow.select(*_SNAPSHOT.selected)
        this = SnapshotRow.name == slot("name")
        unfinished = BuildRow.select(BuildRow.id).where(BuildRow.finished_at.is_null())
        disks_in_use = JobRow.select(JobRow.disk).where(
            JobRow.build.in_(unfinished), JobRow.disk.is_null(is_null=False)
        )
        maker, makers_build = JobRow.alias(), BuildRow.alias()
        self._get = Query(database, snapshots.where(this), _SNAPSHOT)
        self._of_job = Query(
            database,
            snapshots.join(JobRow, on=JobRow.disk == SnapshotRow.name).where(JobRow.id == slot("job_id")),
            _SNAPSHOT,
        )
        self._below = Query(
            database,
            snapshots.join(JobRow, on=JobRow.disk == SnapshotRow.name)
            .join(EdgeRow, on=EdgeRow.from_job == JobRow.id)
            .where(EdgeRow.to_job == slot("job_id"), EdgeRow.kind == EdgeKind.BUILDS_IN),
            _SNAPSHOT,
        )
        self._parent = Query(
            database,
            EdgeRow.select(EdgeRow.from_job).where(
                EdgeRow.to_job == slot("job_id"), EdgeRow.kind == EdgeKind.BUILDS_IN
            ),
            first,
        )
        self._all = Query(database, snapshots.order_by(SnapshotRow.id), _SNAPSHOT)
        makers = (
            SnapshotRow.select(BuildRow.uuid).join(JobRow, on=JobRow.id == SnapshotRow.job).join(BuildRow).distinct()
        )
        self._builds = Query(database, makers, lambda row: str(row[0]))
        self._in_use = Query(database, disks_in_use, lambda row: str(row[0]))
        self._unneeded = Query(
            database,
            snapshots.join(maker, on=maker.id == SnapshotRow.job)
            .join(makers_build, on=makers_build.id == maker.build)
            .where(
                makers_build.finished_at.is_null(is_null=False),
                SnapshotRow.name.not_in(disks_in_use),
                SnapshotRow.name.not_in(CacheRow.select(CacheRow.snapshot)),
            )
            .order_by(SnapshotRow.id),
            _SNAPSHOT,
        )
        self._insert = Write(database, insert_into(SnapshotRow, "bytes").on_conflict_replace())
        self._give = Write(database, JobRow.update({JobRow.disk: slot("name")}).where(JobRow.id == slot("job_id")))
        self._note = Write(database, SnapshotRow.update({SnapshotRow.bytes: slot("bytes")}).where(this))
        self._remove = Write(database, SnapshotRow.delete().where(this))

    def add(
        self, name: str, job_id: int, provider: str, base: str | None = None, cache_name: str | None = None
    ) -> None:
        """Note that a provider keeps a job's disk under ``name``, replacing an earlier row of that name.

        ``base`` is the snapshot that the job started from, None if it started from an image. ``cache_name`` is the name
        under which the disk may be cached.
        """
        with self._database.write():
            self._insert.run(
                name=name,
                job_id=job_id,
                provider=provider,
                base=base,
                cache_name=cache_name,
                created_at=self._database.now(),
            )
            self.give(name, job_id)

    def give(self, name: str, job_id: int) -> None:
        """Set a job's disk to a snapshot, which another job may have left."""
        with self._database.write():
            self._give.run(name=name, job_id=job_id)

    def measured(self, name: str, size: int) -> None:
        """Note how many bytes a snapshot takes beyond its base."""
        with self._database.write():
            self._note.run(name=name, bytes=size)

    def get(self, name: str) -> Snapshot | None:
        """Return a snapshot by name."""
        return self._get.one(name=name)

    def of_job(self, job_id: int) -> Snapshot | None:
        """Return the snapshot that holds a job's disk; an earlier build may have left it."""
        return self._of_job.one(job_id=job_id)

    def below(self, job_id: int) -> Snapshot | None:
        """Return the snapshot that a job starts from; None if it has no parent, or that left no disk."""
        return self._below.one(job_id=job_id)

    def has_parent(self, job_id: int) -> bool:
        """Tell whether a job starts from another job's disk, even if that left none."""
        return self._parent.one(job_id=job_id) is not None

    def all(self) -> list[Snapshot]:
        """Return every snapshot, oldest first."""
        return self._all.all()

    def builds(self) -> set[str]:
        """Return the UUIDs of the builds whose jobs left snapshots."""
        return set(self._builds.all())

    def in_use(self) -> set[str]:
        """Return the names of the snapshots that are disks of unfinished builds' jobs."""
        return set(self._in_use.all())

    def unneeded(self) -> list[Snapshot]:
        """Return the snapshots that may be removed, oldest first.

        Their builds are finished, they are not the disk of an unfinished build's job, and the cache does not name them.
        """
        return self._unneeded.all()

    def remove(self, name: str) -> None:
        """Delete the row of a snapshot, and its cache entries; unknown names are ignored."""
        with self._database.write():
            self._remove.run(name=name)
