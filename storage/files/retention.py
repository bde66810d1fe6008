"""Retention of the files that finished builds keep on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import peewee

from storage.data_classes import immutable
from storage.database.clock import to_micros
from storage.database.statements import Columns, Query, Write, first, slot
from storage.models.builds import AnnotationRow, ArtifactRow, BuildRow, JobOutputsRow, JobSummaryRow
from storage.models.leases import CacheRow, SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import Any

    from storage.database.connection import Database
    from storage.files.artifacts import ArtifactFiles
    from storage.files.logs import LogFiles
    from storage.files.sources import Sources


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
            database,
            lambda: BuildRow.select(peewee.fn.COALESCE(peewee.fn.SUM(size), 0)).where(has_some, not_expired),
            first,
        )
        self._kept = Query(
            database,
            lambda: (
                builds.where(has_some, not_expired, place > peewee.Tuple(slot("finished_at"), slot("id")))
                .order_by(BuildRow.finished_at, BuildRow.id)
                .limit(_BATCH)
            ),
            kept,
        )
        self._expired = Query(
            database,
            lambda: builds.where(has_some, expired_at.is_null(is_null=False)).order_by(BuildRow.id).limit(_BATCH),
            kept,
        )
        self._expire = Write(
            database,
            lambda: BuildRow.update({expired_at: slot("now")}).where(
                this, not_expired, BuildRow.finished_at.is_null(is_null=False)
            ),
        )
        self._forget = Write(database, lambda: BuildRow.update({size: None}).where(this))

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
            lambda: (
                BuildRow.select(BuildRow.uuid)
                .where(*has_files, BuildRow.finished_at.is_null(is_null=False), size.is_null(), expired_at.is_null())
                .order_by(BuildRow.id)
                .limit(_BATCH)
            ),
            lambda row: str(row[0]),
        )
        self._note = Write(
            database, lambda: BuildRow.update({size: slot("bytes")}).where(BuildRow.uuid == slot("uuid"))
        )

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
            lambda: ArtifactRow.select(ArtifactRow.uuid).join(BuildRow).where(BuildRow.uuid == slot("build_uuid")),
            lambda row: str(row[0]),
        )
        self._delete = Write(database, lambda: ArtifactRow.delete().where(ArtifactRow.build == slot("build_id")))

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


class LogRetention(MeasuredRetention):
    """Retention of logs, and of what jobs have told with them.

    Never touches an unfinished build's. Safe in any thread.
    """

    def __init__(self, database: Database, logs: LogFiles) -> None:
        super().__init__(database, BuildRow.log_bytes, BuildRow.logs_expired_at)
        self._logs = logs
        self._known = Query(database, lambda: BuildRow.select(BuildRow.id).where(BuildRow.uuid == slot("uuid")), first)
        cached = (
            SnapshotRow.select(SnapshotRow.name)
            .join(CacheRow, on=CacheRow.snapshot == SnapshotRow.name)
            .where(SnapshotRow.job == JobOutputsRow.job)
        )
        self._expire_outputs = Write(
            database,
            lambda: JobOutputsRow.update({JobOutputsRow.expired: 1}).where(JobOutputsRow.build == slot("build_id")),
        )
        self._old_outputs = Query(
            database,
            lambda: (
                JobOutputsRow.select(JobOutputsRow.job)
                .where(JobOutputsRow.expired == 1, ~peewee.fn.EXISTS(cached))
                .limit(_BATCH)
            ),
            first,
        )
        self._delete_told = [Write(database, partial(_of_build, row)) for row in (JobSummaryRow, AnnotationRow)]
        self._forget_outputs = Write(
            database, lambda: JobOutputsRow.delete().where(JobOutputsRow.job == slot("job_id"))
        )

    def remove_orphans(self) -> list[str]:
        """Remove the logs of builds without a row; return the names of their folders."""
        orphans = [name for name in self._logs.builds() if self._known.one(uuid=name) is None]
        for name in orphans:
            self._logs.remove(name)
        return orphans

    def finish_expiring(self) -> None:
        """Remove also the outputs that have expired; those stay whose job's disk other jobs may still have."""
        super().finish_expiring()
        while batch := self._old_outputs.all():
            with self._database.write():
                for job_id in batch:
                    self._forget_outputs.run(job_id=job_id)

    def _remove(self, kept: KeptFiles) -> None:
        self._logs.remove(kept.build_uuid)

    def _remove_all(self, batch: Sequence[KeptFiles]) -> None:
        with self._database.write():
            for each in batch:
                self._expire_outputs.run(build_id=each.build_id)
                for delete in self._delete_told:
                    delete.run(build_id=each.build_id)
        super()._remove_all(batch)

    def _bytes_of(self, build_uuid: str) -> int:
        return self._logs.bytes_of(build_uuid)


def _of_build(row: type[JobSummaryRow | AnnotationRow]) -> peewee.Delete:
    """Return a DELETE of what the jobs of one build told."""
    return row.delete().where(row.build == slot("build_id"))


class SourceRetention(MeasuredRetention):
    """Retention of source archives. Never touches an unfinished build's. Safe in any thread.

    A build counts with the full size of its archive, even if it shares the bytes with the build that it repeats.
    """

    def __init__(self, database: Database, sources: Sources) -> None:
        has_source = BuildRow.has_source == 1
        super().__init__(database, BuildRow.source_bytes, BuildRow.source_expired_at, has_source)
        self._sources = sources
        uuids = BuildRow.select(BuildRow.uuid)
        self._unfinished = Query(database, lambda: uuids.where(BuildRow.finished_at.is_null()), lambda row: str(row[0]))
        self._kept_uuids = Query(
            database, lambda: uuids.where(has_source, BuildRow.source_expired_at.is_null()), lambda row: str(row[0])
        )

    def owners(self) -> set[str]:
        """Return the UUIDs of the builds that keep their archive, or have not finished."""
        return {*self._unfinished.all(), *self._kept_uuids.all()}

    def _bytes_of(self, build_uuid: str) -> int:
        return self._sources.bytes_of(build_uuid)

    def _remove(self, kept: KeptFiles) -> None:
        self._sources.remove(kept.build_uuid)
