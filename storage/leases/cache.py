"""The disks that jobs leave, and the cache of them across builds (engine.md, "Cache across builds")."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, EdgeRow, JobRow
from storage.models.leases import CacheRow, KeptDiskRow, LeaseRow, PreviewRow, SnapshotRow
from storage.models.pipelines import PipelineRow
from storage.records.builds import BuildState
from storage.records.jobs import EdgeKind, JobErrorCode, JobState, Outcome
from storage.records.leases import CacheEntry, NewCacheEntry, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.builds.artifacts import Artifacts
    from storage.builds.jobs import Jobs
    from storage.builds.told import Told
    from storage.database.connection import Database
    from storage.files.logs import LogFiles
    from storage.records.jobs import Job


_log = logging.getLogger(__name__)

_ENTRY = Columns.of(
    CacheEntry,
    CacheRow,
    organization_slug=OrganizationRow.slug,
    pipeline_slug=PipelineRow.slug,
    build_number=BuildRow.number,
    job_name=JobRow.name,
    job_id=JobRow.id,
    bytes=SnapshotRow.bytes,
    provider=SnapshotRow.provider,
)
_NEW: Slots[NewCacheEntry] = Slots(NewCacheEntry, CacheRow)


class Cache:
    """Cached disks, each for later builds of the same pipeline. Safe in any thread.

    An entry only names a snapshot; `Snapshots.unneeded` decides when a snapshot may be removed.
    """

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        snapshots: Snapshots,
        artifacts: Artifacts,
        told: Told,
        logs: LogFiles,
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._snapshots = snapshots
        self._artifacts = artifacts
        self._told = told
        self._logs = logs
        entries = (
            CacheRow.select(*_ENTRY.selected)
            .join(SnapshotRow, on=SnapshotRow.name == CacheRow.snapshot)
            .join(JobRow, on=JobRow.id == SnapshotRow.job)
            .join(BuildRow)
            .join(PipelineRow)
            .join(OrganizationRow)
        )
        this = CacheRow.id == slot("id")
        organization, pipeline = slot("organization"), slot("pipeline")
        may_hit = (
            JobRow.select(JobRow.id)
            .join(CacheRow, on=(CacheRow.pipeline == BuildRow.pipeline) & (CacheRow.key == JobRow.cache_key))
            .where(JobRow.build == BuildRow.id, JobRow.state == JobState.SCHEDULED)
        )
        skipped, unfinished = JobRow.alias(), JobRow.alias()
        all_skipped = peewee.fn.EXISTS(
            skipped.select(skipped.id).where(
                skipped.build == BuildRow.id, skipped.error_code == JobErrorCode.CONDITION_NOT_MET
            )
        ) & ~peewee.fn.EXISTS(
            unfinished.select(unfinished.id).where(unfinished.build == BuildRow.id, unfinished.finished_at.is_null())
        )
        has_disk = JobRow.select(JobRow.id).where(JobRow.build == BuildRow.id, JobRow.disk.is_null(is_null=False))
        exists, builds = peewee.fn.EXISTS, BuildRow.select(BuildRow.id)
        self._get = Query(database, lambda: entries.where(this), _ENTRY)
        self._find = Query(
            database,
            lambda: entries.where(CacheRow.name == slot("name")),
            _ENTRY,
        )
        # What a job has left is of its last attempt, which may not be the one that left the disk.
        self._is_older = Query(
            database,
            lambda: (
                LeaseRow.select(LeaseRow.id)
                .join(JobRow, on=JobRow.id == LeaseRow.job)
                .where(LeaseRow.uuid == slot("snapshot"), LeaseRow.attempt < JobRow.attempt)
            ),
            first,
        )
        self._entries = Query(
            database,
            lambda: entries.where(
                organization.is_null() | (OrganizationRow.slug == organization),
                pipeline.is_null() | (PipelineRow.slug == pipeline),
            ).order_by(CacheRow.last_used_at, CacheRow.id),
            _ENTRY,
        )
        needs_no_vm = exists(may_hit) | all_skipped
        self._may_hit = Query(database, lambda: builds.where(BuildRow.id == slot("build_id"), needs_no_vm), first)
        self._may_hit_after = Query(
            database,
            lambda: builds.where(BuildRow.id > slot("build_id"), BuildRow.finished_at.is_null(), needs_no_vm),
            first,
        )
        self._begun = Query(
            database,
            lambda: builds.where(
                BuildRow.finished_at.is_null(),
                BuildRow.state == BuildState.SCHEDULED,
                exists(has_disk) | needs_no_vm,
            ),
            first,
        )
        self._insert = Write(database, lambda: insert_into(CacheRow).on_conflict_ignore())
        self._use = Write(
            database,
            lambda: CacheRow.update({CacheRow.last_used_at: slot("now"), CacheRow.hits: CacheRow.hits + 1}).where(this),
        )
        self._drop = Write(database, lambda: CacheRow.delete().where(this))

    def find(self, name: str) -> CacheEntry | None:
        """Return the entry with a name."""
        return self._find.one(name=name)

    def entries(self, organization: str | None = None, pipeline: str | None = None) -> list[CacheEntry]:
        """Return the entries, least recently used first; if slugs are given, only those that match."""
        return self._entries.all(organization=organization, pipeline=pipeline)

    def store(self, new: NewCacheEntry) -> bool:
        """Cache a snapshot; False and no change if the name is cached already or the snapshot is missing."""
        with self._database.write():
            if self._snapshots.get(new.snapshot) is None:
                return False
            now = self._database.now()
            stored = self._insert.run(**_NEW(new), created_at=now, last_used_at=now, hits=0)
            return stored == 1

    def hit(self, entry: CacheEntry, job: Job, to: JobState, build_uuid: str, notice: str) -> bool:
        """Move a job to the state ``to`` with an entry's disk, artifacts and outputs; say so in its log.

        All in one transaction: False and no change if the entry is gone, the job has left its state, or the host's disk
        is full. An entry that cannot give the artifacts that the job promises, or has outputs of a later attempt, is
        dropped, so that the job runs and leaves another. If only the log cannot be written, the notice is lost.
        """
        try:
            return self._hit(entry, job, to, build_uuid, notice)
        except OSError as error:
            _log.warning("job %s does not pass from the cache: %s", job.uuid, error)
            return False

    def _hit(self, entry: CacheEntry, job: Job, to: JobState, build_uuid: str, notice: str) -> bool:
        with self._database.write():
            kept = self._get.one(id=entry.id)
            if kept is not None and not self._has_all(kept, job):
                _log.info("the cached disk %s is dropped: what its job left beside it is gone", kept.snapshot)
                self._drop.run(id=kept.id)
                return False
            if kept is None or not self._jobs.move(job.id, job.state, to, Outcome(cache_hit=True)):
                return False
            self._snapshots.give(entry.snapshot, job.id)
            self._use.run(id=entry.id, now=self._database.now())
            if entry.job_id != job.id:  # a job that runs again may find its own disk
                self._told.inherit(entry.job_id, job.id, job.build_id)
                if job.artifacts:
                    self._artifacts.inherit(entry.job_id, job.id)
            with suppress(OSError), self._logs.writer(build_uuid, job.uuid, job.attempt) as log:
                if job.attempt or not log.size:  # else a process wrote the notice and died before its commit
                    log.notice(notice)
            return True

    def _has_all(self, entry: CacheEntry, job: Job) -> bool:
        """Tell whether all is still there that a job is to have of the command which left a disk."""
        if self._is_older.one(snapshot=entry.snapshot) is not None:
            return not job.artifacts and self._told.outputs(entry.job_id) is None
        return not job.artifacts or self._artifacts.complete(entry.job_id)

    def drop(self, entries: Iterable[CacheEntry]) -> None:
        """Delete entries; missing ones are ignored."""
        with self._database.write():
            for entry in entries:
                self._drop.run(id=entry.id)

    def may_hit(self, build_id: int) -> bool:
        """Tell whether a build may go on without a VM.

        The key of a scheduled job is cached for its pipeline, on any image, or conditions have skipped all of its jobs.
        """
        return self._may_hit.one(build_id=build_id) is not None

    def may_hit_after(self, build_id: int) -> list[int]:
        """Return the unfinished builds that were created after another one and may go on without a VM."""
        return self._may_hit_after.all(build_id=build_id)

    def begun(self) -> list[int]:
        """Return the ``scheduled`` builds of which a job has a disk, or which may go on without a VM."""
        return self._begun.all()


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
        served = PreviewRow.select(PreviewRow.disk).where(PreviewRow.ended_at.is_null())
        kept, failed = KeptDiskRow.select(KeptDiskRow.snapshot).union_all(served), SnapshotRow.alias()
        below_kept = failed.select(failed.base).where(failed.name.in_(kept), failed.base.is_null(is_null=False))
        maker, makers_build = JobRow.alias(), BuildRow.alias()
        self._get = Query(database, lambda: snapshots.where(this), _SNAPSHOT)
        self._of_job = Query(
            database,
            lambda: snapshots.join(JobRow, on=JobRow.disk == SnapshotRow.name).where(JobRow.id == slot("job_id")),
            _SNAPSHOT,
        )
        self._below = Query(
            database,
            lambda: (
                snapshots.join(JobRow, on=JobRow.disk == SnapshotRow.name)
                .join(EdgeRow, on=EdgeRow.from_job == JobRow.id)
                .where(EdgeRow.to_job == slot("job_id"), EdgeRow.kind == EdgeKind.BUILDS_IN)
            ),
            _SNAPSHOT,
        )
        self._parent = Query(
            database,
            lambda: EdgeRow.select(EdgeRow.from_job).where(
                EdgeRow.to_job == slot("job_id"), EdgeRow.kind == EdgeKind.BUILDS_IN
            ),
            first,
        )
        self._all = Query(database, lambda: snapshots.order_by(SnapshotRow.id), _SNAPSHOT)
        makers = (
            SnapshotRow.select(BuildRow.uuid).join(JobRow, on=JobRow.id == SnapshotRow.job).join(BuildRow).distinct()
        )
        self._builds = Query(database, lambda: makers, lambda row: str(row[0]))
        self._in_use = Query(database, lambda: disks_in_use, lambda row: str(row[0]))
        self._unneeded = Query(
            database,
            lambda: (
                snapshots.join(maker, on=maker.id == SnapshotRow.job)
                .join(makers_build, on=makers_build.id == maker.build)
                .where(
                    makers_build.finished_at.is_null(is_null=False),
                    SnapshotRow.name.not_in(disks_in_use),
                    SnapshotRow.name.not_in(CacheRow.select(CacheRow.snapshot)),
                    SnapshotRow.name.not_in(kept),
                    SnapshotRow.name.not_in(below_kept),
                )
                .order_by(SnapshotRow.id)
            ),
            _SNAPSHOT,
        )
        self._insert = Write(database, lambda: insert_into(SnapshotRow, "bytes").on_conflict_replace())
        self._give = Write(
            database, lambda: JobRow.update({JobRow.disk: slot("name")}).where(JobRow.id == slot("job_id"))
        )
        self._note = Write(database, lambda: SnapshotRow.update({SnapshotRow.bytes: slot("bytes")}).where(this))
        self._remove = Write(database, lambda: SnapshotRow.delete().where(this))

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

        Their builds are finished, they are not the disk of an unfinished build's job, the cache does not name them, and
        no disk of a failed job or of a preview is kept that is one of them, or on one.
        """
        return self._unneeded.all()

    def remove(self, name: str) -> None:
        """Delete the row of a snapshot, and its cache entries; unknown names are ignored."""
        with self._database.write():
            self._remove.run(name=name)
