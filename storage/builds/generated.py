"""Jobs that jobs generate: the files that declare them, and their rows (engine.md, "Generated jobs")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, first, slot
from storage.models.builds import AttemptRow, JobRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import peewee

    from storage.builds.insertion import JobInserter
    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.jobs import Job, NewJob


class GeneratedJobs:
    """The files by which jobs generate others, until these join the build. Safe in any thread."""

    def __init__(self, database: Database, inserter: JobInserter) -> None:
        self._database = database
        self._inserter = inserter
        self._keep = Write(
            database, lambda: AttemptRow.update({AttemptRow.generated: slot("text")}).where(*_open_attempt())
        )
        self._text = Query(database, lambda: AttemptRow.select(AttemptRow.generated).where(*_open_attempt()), _text)
        self._of = Query(
            database,
            lambda: JobRow.select(JobRow.id).where(
                JobRow.build == slot("build_id"), JobRow.generated_by == slot("uuid")
            ),
            first,
        )

    def keep(self, job_id: int, text: str) -> None:
        """Keep the file of the open attempt of a job, whose VM may end from now on."""
        with self._database.write():
            self._keep.run(job_id=job_id, text=text)

    def text(self, job_id: int) -> str | None:
        """Return the file of the open attempt of a job; None if it is not kept yet."""
        return self._text.one(job_id=job_id) or None

    def has_generated(self, job: Job) -> bool:
        """Tell whether a job has generated jobs of the build, also before a retry."""
        return self._of.one(build_id=job.build_id, uuid=job.uuid) is not None

    def add(self, build: Build, maker: Job, before: int, jobs: Sequence[NewJob]) -> None:
        """Add the jobs of a job's file to its build, in the transaction in which that job ends.

        Raises JobsJoined if the build has not so many jobs ``before`` them.
        """
        with self._database.write():
            self._inserter.append(build, before, jobs, self._database.now(), generated_by=maker.uuid)


def _text(row: Sequence[str | None]) -> str:
    return row[0] or ""


def _open_attempt() -> tuple[peewee.Expression, ...]:
    return AttemptRow.job == slot("job_id"), AttemptRow.finished_at.is_null()
