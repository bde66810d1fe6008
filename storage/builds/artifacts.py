"""Artifacts, the files that jobs keep (wire-decisions.md, "Logs and artifacts"), and who takes them."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import peewee

from storage.database.clock import from_micros
from storage.database.statements import Columns, Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.models.builds import ArtifactRow, BuildRow, JobRow, TakenBuildRow
from storage.records.builds import Artifact, NewArtifact, PastArtifact

if TYPE_CHECKING:
    import mimetypes
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from storage.builds.jobs import Attempts
    from storage.database.connection import Database
    from storage.documents import Page
    from storage.files.artifacts import ArtifactFiles
    from storage.records.builds import Build
    from storage.records.jobs import Job


_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

_ARTIFACT = Columns.of(Artifact, ArtifactRow, build_uuid=BuildRow.uuid, job_uuid=JobRow.uuid)
_PAST = Columns(PastArtifact, BuildRow.number, BuildRow.commit, JobRow.step_key, _ARTIFACT)
_NEW: Slots[NewArtifact] = Slots(NewArtifact, ArtifactRow)


class Artifacts:
    """The artifacts of jobs. Safe in any thread.

    A job's artifacts appear all at once, when their files are on disk. A later attempt's artifacts replace them.
    """

    def __init__(self, database: Database, files: ArtifactFiles, attempts: Attempts) -> None:
        self.files = files
        self._database = database
        self._attempts = attempts
        artifacts = (
            ArtifactRow.select(*_ARTIFACT.selected)
            .join(BuildRow, on=BuildRow.id == ArtifactRow.build)
            .join(JobRow, on=JobRow.id == ArtifactRow.job)
        )
        of_job = ArtifactRow.job == slot("job_id")
        of_build = ArtifactRow.build == slot("build_id")
        follows, limit = ArtifactRow.id > slot("after"), slot("limit")
        this_build = BuildRow.id == slot("build_id")
        self._of_job = Query(database, lambda: artifacts.where(of_job).order_by(ArtifactRow.id), _ARTIFACT)
        self._page_of_job = Query(
            database, lambda: artifacts.where(of_job, follows).order_by(ArtifactRow.id).limit(limit), _ARTIFACT
        )
        self._page_of_build = Query(
            database, lambda: artifacts.where(of_build, follows).order_by(ArtifactRow.id).limit(limit), _ARTIFACT
        )
        ending = of_build & ArtifactRow.path.endswith(slot("suffix"))
        self._ending = Query(database, lambda: artifacts.where(ending).order_by(ArtifactRow.id).limit(limit), _ARTIFACT)
        self._count_ending = Query(
            database, lambda: ArtifactRow.select(peewee.fn.COUNT(ArtifactRow.id)).where(ending), first
        )
        recent = (BuildRow.number <= slot("number")) & (BuildRow.number > slot("number") - slot("builds"))
        self._past = Query(
            database,
            lambda: (
                artifacts.select(*_PAST.selected)
                .where(
                    BuildRow.pipeline == slot("pipeline_id"),
                    recent,
                    BuildRow.artifacts_expired_at.is_null(),
                    ArtifactRow.path.endswith(slot("suffix")),
                    ArtifactRow.file_size <= slot("largest"),
                )
                .order_by(BuildRow.number.desc(), ArtifactRow.id)
                .limit(limit)
            ),
            _PAST,
        )
        of_branch = (BuildRow.pipeline == slot("pipeline_id")) & (BuildRow.branch == slot("branch"))
        self._numbers = Query(
            database,
            lambda: (
                BuildRow.select(BuildRow.number)
                .where(of_branch, BuildRow.number <= slot("number"))
                .order_by(BuildRow.number.desc())
                .limit(limit)
            ),
            first,
        )
        self._of_branch = Query(
            database,
            lambda: (
                artifacts.select(*_PAST.selected)
                .where(
                    of_branch,
                    BuildRow.number.between(slot("oldest"), slot("newest")),
                    BuildRow.artifacts_expired_at.is_null(),
                    ArtifactRow.path.endswith(slot("suffix")),
                    ArtifactRow.file_size <= slot("largest"),
                )
                .order_by(BuildRow.number.desc(), ArtifactRow.id)
                .limit(limit)
            ),
            _PAST,
        )
        self._find = Query(database, lambda: artifacts.where(ArtifactRow.uuid == slot("uuid"), of_build), _ARTIFACT)
        self._at = Query(
            database,
            lambda: artifacts.where(of_build, ArtifactRow.path == slot("path")).order_by(ArtifactRow.id.desc()),
            _ARTIFACT,
        )
        self._expired_at = Query(
            database,
            lambda: BuildRow.select(BuildRow.artifacts_expired_at).where(
                this_build, BuildRow.artifacts_expired_at.is_null(is_null=False)
            ),
            lambda row: from_micros(row[0]),
        )
        self._build_of_job = Query(
            database,
            lambda: JobRow.select(BuildRow.id, BuildRow.uuid).join(BuildRow).where(JobRow.id == slot("job_id")),
            lambda row: (int(row[0]), str(row[1])),
        )
        self._expired_of_job = Query(
            database,
            lambda: (
                JobRow.select(JobRow.id)
                .join(BuildRow)
                .where(JobRow.id == slot("job_id"), BuildRow.artifacts_expired_at.is_null(is_null=False))
            ),
            first,
        )
        self._total_bytes = Query(
            database,
            lambda: ArtifactRow.select(peewee.fn.COALESCE(peewee.fn.SUM(ArtifactRow.file_size), 0)).where(of_job),
            first,
        )
        self._insert = Write(database, lambda: insert_into(ArtifactRow))
        self._delete = Write(database, lambda: ArtifactRow.delete().where(of_job))
        self._add_bytes = Write(
            database,
            lambda: BuildRow.update(
                {BuildRow.artifact_bytes: peewee.fn.COALESCE(BuildRow.artifact_bytes, 0) + slot("bytes")}
            ).where(this_build),
        )

    def find(self, build_id: int, uuid: str) -> Artifact | None:
        """Return a build's artifact by UUID."""
        return self._find.one(build_id=build_id, uuid=uuid)

    def at(self, build_id: int, path: str) -> list[Artifact]:
        """Return a build's artifacts of a path, which several jobs may have kept, the newest first."""
        return self._at.all(build_id=build_id, path=path)

    def of_job(self, job_id: int) -> list[Artifact]:
        """Return a job's artifacts, in the order in which they were stored."""
        return self._of_job.all(job_id=job_id)

    def page_of_job(self, job_id: int, limit: int, after: int | None) -> Page[Artifact]:
        """Return a job's artifacts past the key ``after``."""
        return self._page_of_job.page(limit, lambda artifact: artifact.id, job_id=job_id, after=after or 0)

    def page_of_build(self, build_id: int, limit: int, after: int | None) -> Page[Artifact]:
        """Return a build's artifacts past the key ``after``; jobs come in the order in which they ended."""
        return self._page_of_build.page(limit, lambda artifact: artifact.id, build_id=build_id, after=after or 0)

    def ending(self, build_id: int, suffix: str, limit: int) -> list[Artifact]:
        """Return the first artifacts of a build whose paths end in ``suffix``."""
        return self._ending.all(build_id=build_id, suffix=suffix, limit=limit)

    def count_ending(self, build_id: int, suffix: str) -> int:
        """Count the artifacts of a build whose paths end in ``suffix``."""
        return self._count_ending.one(build_id=build_id, suffix=suffix) or 0

    def past(
        self, pipeline_id: int, number: int, builds: int, suffix: str, largest: int, limit: int
    ) -> list[PastArtifact]:
        """Return artifacts of the last builds of a pipeline up to a number, newest first.

        Their paths end in ``suffix``, and they have at most ``largest`` bytes.
        """
        return self._past.all(
            pipeline_id=pipeline_id, number=number, builds=builds, suffix=suffix, largest=largest, limit=limit
        )

    def numbers(self, pipeline_id: int, branch: str, number: int, limit: int) -> list[int]:
        """Return the numbers of the last builds of a branch up to a number, newest first."""
        return self._numbers.all(pipeline_id=pipeline_id, branch=branch, number=number, limit=limit)

    def of_branch(
        self, pipeline_id: int, branch: str, numbers: tuple[int, int], suffix: str, largest: int, limit: int
    ) -> list[PastArtifact]:
        """Return artifacts of the builds of a branch, newest first, from the one number to the other.

        Their paths end in ``suffix``, and they have at most ``largest`` bytes.
        """
        oldest, newest = numbers
        return self._of_branch.all(
            pipeline_id=pipeline_id,
            branch=branch,
            oldest=oldest,
            newest=newest,
            suffix=suffix,
            largest=largest,
            limit=limit,
        )

    def expired_at(self, build_id: int) -> datetime | None:
        """Return when a build's artifacts expired; None if they did not."""
        return self._expired_at.one(build_id=build_id)

    def path(self, artifact: Artifact) -> Path:
        """Return the path of an artifact's file."""
        return self.files.path(artifact.build_uuid, artifact.uuid)

    def store(self, build: Build, job: Job, found: Iterable[NewArtifact], *, complete: bool = True) -> None:
        """Record written files as the artifacts of the job's open attempt, replacing earlier ones.

        Those that are not ``complete`` are collected again if the process ends before the attempt is recorded.
        """
        if found := list(found):
            self.files.sync(build.uuid)
        with self._database.write():
            before = self._clear(build.id, job.id)
            self._write(build.id, job.id, found)
            if complete:
                self._attempts.collected(job.id, self._database.now())
        self.files.remove(build.uuid, before)

    def are_whole(self, job_id: int) -> bool:
        """Tell whether the files of all artifacts of a job are there; a restored backup may lack some."""
        for artifact in self._of_job.all(job_id=job_id):
            try:
                if self.path(artifact).stat().st_size != artifact.file_size:
                    return False
            except OSError:
                return False
        return True

    def discard(self, build: Build, job: Job) -> None:
        """Remove the artifacts of a job whose attempt does not count."""
        with self._database.write():
            gone = self._clear(build.id, job.id)
        self.files.remove(build.uuid, gone)

    def complete(self, job_id: int) -> bool:
        """Tell whether all artifacts that a job has left, perhaps none, have not expired and have their files."""
        if self._expired_of_job.one(job_id=job_id) is not None:
            return False
        return all(self._has_file(artifact) for artifact in self._of_job.all(job_id=job_id))

    def _has_file(self, artifact: Artifact) -> bool:
        with suppress(FileNotFoundError):
            return self.path(artifact).stat().st_size == artifact.file_size
        return False

    def inherit(self, from_job_id: int, to_job_id: int) -> None:
        """Give a job the artifacts of another job, in place of its own. They share their bytes on disk.

        Part of the caller's transaction, if there is one. The reaper removes the files that have no row in the end.
        Raises OSError, also if a file is gone (`complete`).
        """
        left = self._of_job.all(job_id=from_job_id)
        receiver = self._build_of_job.one(job_id=to_job_id)
        if receiver is None:
            return
        build_id, build_uuid = receiver
        shared = []
        for artifact in left:
            uuid = self.files.link(self.path(artifact), build_uuid)
            shared.append(NewArtifact(uuid, artifact.path, artifact.file_size, artifact.sha256, artifact.executable))
        self.files.sync(build_uuid)
        with self._database.write():
            self._clear(build_id, to_job_id)
            self._write(build_id, to_job_id, shared)

    def _clear(self, build_id: int, job_id: int) -> list[str]:
        """Delete a job's rows, inside the caller's transaction; return the names of the files to remove."""
        gone = [artifact.uuid for artifact in self._of_job.all(job_id=job_id)]
        if gone:
            self._add_bytes.run(build_id=build_id, bytes=-(self._total_bytes.one(job_id=job_id) or 0))
            self._delete.run(job_id=job_id)
        return gone

    def _write(self, build_id: int, job_id: int, found: Iterable[NewArtifact]) -> None:
        now = self._database.now()
        rows: list[Mapping[str, SqlValue]] = [
            {
                **_NEW(new),
                "build_id": build_id,
                "job_id": job_id,
                "mime_type": _mime_type(new.path),
                "created_at": now,
            }
            for new in found
        ]
        if rows:
            self._insert.run_many(rows)
            self._add_bytes.run(build_id=build_id, bytes=self._total_bytes.one(job_id=job_id))


def _mime_type(path: str) -> str:
    """Return the MIME type of a file by its name; for a compressed file the type of the compression."""
    kind, packed = _types().guess_type(f"file:///{path.rpartition('/')[2]}")
    found = kind if packed is None else _PACKED.get(packed)
    return found or "application/octet-stream"


@cache
def _types() -> mimetypes.MimeTypes:
    """Return Python's own table of types, so that they do not depend on the host's mime.types files.

    It takes long to make, because Python reads those files all the same.
    """
    import mimetypes  # noqa: PLC0415 - the same

    return mimetypes.MimeTypes()


class TakenBuilds:
    """The builds whose artifacts builds take. Safe in any thread.

    A build takes one for each pipeline and branch that its file names: all its jobs and their retries get the same.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = (TakenBuildRow.build == slot("build_id")) & (TakenBuildRow.source == slot("source"))
        self._get = Query(database, lambda: TakenBuildRow.select(TakenBuildRow.taken_id).where(this), first)
        self._insert = Write(database, lambda: insert_into(TakenBuildRow).on_conflict_ignore())

    def get(self, build_id: int, source: str) -> int | None:
        """Return the id of the build that a build takes for a source; None if it has taken none yet."""
        return self._get.one(build_id=build_id, source=source)

    def take(self, build_id: int, source: str, taken_id: int) -> int:
        """Let a build take another one for a source; return the id of the one that it has taken first."""
        with self._database.write():
            self._insert.run(build_id=build_id, source=source, taken_id=taken_id)
            return written(self.get(build_id, source))
