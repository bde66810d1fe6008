"""Attempts: the executions of each job and their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models import AttemptRow, EdgeRow, JobRow
from storage.records import Attempt, EdgeKind, JobState

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.records import Outcome

_ATTEMPT = Columns.of(Attempt, AttemptRow)


class Attempts:
    """The attempts at each job, one per lease. Safe in any thread.

    They are written inside the transactions of jobs and leases.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        of_job = AttemptRow.job == slot("job_id")
        unfinished = AttemptRow.finished_at.is_null()
        self._of_job = Query(
            database,
            AttemptRow.select(*_ATTEMPT.selected).where(of_job).order_by(AttemptRow.number),
            _ATTEMPT,
        )
        self._of_build = Query(
            database,
            AttemptRow.select(*_ATTEMPT.selected)
            .join(JobRow)
            .where(JobRow.build == slot("build_id"))
            .order_by(JobRow.position, AttemptRow.number),
            _ATTEMPT,
        )
        self._lost = Query(
            database,
            AttemptRow.select(peewee.fn.COUNT(AttemptRow.number))
            .join(JobRow)
            .where(of_job, AttemptRow.number > JobRow.attempts_before, AttemptRow.error_code.is_null(is_null=False)),
            first,
        )
        own, other = AttemptRow.alias(), JobRow.alias()
        began = peewee.Tuple(own.created_at, own.job)
        before = (
            AttemptRow.select(AttemptRow.number)
            .join(other, on=other.id == AttemptRow.job)
            .where(
                other.build == JobRow.build,
                other.image == JobRow.image,
                ~peewee.fn.EXISTS(
                    EdgeRow.select().where(EdgeRow.to_job == other.id, EdgeRow.kind == EdgeKind.BUILDS_IN)
                ),
                peewee.Tuple(AttemptRow.created_at, AttemptRow.job) < began,
            )
        )
        self._first_of_image = Query(
            database,
            own.select(own.number)
            .join(JobRow, on=JobRow.id == own.job)
            .where(own.job == slot("job_id"), own.number == slot("number"), ~peewee.fn.EXISTS(before)),
            first,
        )
        self._open = Write(
            database,
            insert_into(
                AttemptRow,
                "started_at",
                "finished_at",
                "exit_code",
                "error_code",
                "secrets",
                "collected_at",
                "leased_at",
                "exited_at",
                "cache_name",
            ),
        )
        leased_at = peewee.fn.COALESCE(AttemptRow.leased_at, slot("now"))
        self._leased = Write(database, AttemptRow.update({AttemptRow.leased_at: leased_at}).where(of_job, unfinished))
        exited_at = peewee.fn.COALESCE(AttemptRow.exited_at, slot("at"))
        self._over = Write(database, AttemptRow.update({AttemptRow.exited_at: exited_at}).where(of_job, unfinished))
        self._exited_at = Query(database, AttemptRow.select(AttemptRow.exited_at).where(of_job, unfinished), first)
        self._cache_name = Query(
            database,
            AttemptRow.select(AttemptRow.cache_name).where(of_job, unfinished),
            lambda row: row[0] and str(row[0]),
        )
        self._name = Write(
            database, AttemptRow.update({AttemptRow.cache_name: slot("cache_name")}).where(of_job, unfinished)
        )
        self._start = Write(
            database,
            AttemptRow.update({AttemptRow.state: JobState.RUNNING, AttemptRow.started_at: slot("now")}).where(
                of_job, unfinished
            ),
        )
        self._exited = Write(
            database, AttemptRow.update({AttemptRow.exit_code: slot("exit_code")}).where(of_job, unfinished)
        )
        self._collected = Write(
            database, AttemptRow.update({AttemptRow.collected_at: slot("now")}).where(of_job, unfinished)
        )
        self._close = Write(
            database,
            AttemptRow.update(
                {
                    AttemptRow.state: slot("state"),
                    AttemptRow.finished_at: slot("now"),
                    AttemptRow.exit_code: slot("exit_code"),
                    AttemptRow.error_code: slot("error_code"),
                    AttemptRow.secrets: None,
                }
            ).where(of_job, unfinished),
        )

    def of_build(self, build_id: int) -> dict[int, list[Attempt]]:
        """Return the attempts of a build's jobs, first ones first, by the id of the job."""
        found: dict[int, list[Attempt]] = {}
        for attempt in self._of_build.all(build_id=build_id):
            found.setdefault(attempt.job_id, []).append(attempt)
        return found

    def of_job(self, job_id: int) -> list[Attempt]:
        """Return a job's attempts, first to last."""
        return self._of_job.all(job_id=job_id)

    def lost(self, job_id: int) -> int:
        """Count the attempts that the service lost since the last retry: those with an error code."""
        return self._lost.one(job_id=job_id) or 0

    def is_first_of_image(self, job_id: int, number: int) -> bool:
        """Tell whether no job of the same build started from the job's image before this attempt."""
        return self._first_of_image.one(job_id=job_id, number=number) is not None

    def open(self, job_id: int, number: int, now: int) -> None:
        """Add a job's next attempt, ``assigned``."""
        self._open.run(job_id=job_id, number=number, state=JobState.ASSIGNED, created_at=now)

    def leased(self, job_id: int) -> None:
        """Note that the open attempt has its VM; the first call counts."""
        with self._database.write():
            self._leased.run(job_id=job_id, now=self._database.now())

    def name_disk(self, job_id: int, cache_name: str) -> None:
        """Note under which name the disk of the open attempt may be cached, before its command starts."""
        with self._database.write():
            self._name.run(job_id=job_id, cache_name=cache_name)

    def cache_name(self, job_id: int) -> str | None:
        """Return the name under which the disk of the open attempt may be cached; None if it has none."""
        return self._cache_name.one(job_id=job_id)

    def start(self, job_id: int, now: int) -> None:
        """Note that the open attempt's command started."""
        self._start.run(job_id=job_id, now=now)

    def note_end(self, job_id: int, at: int) -> None:
        """Note when the open attempt's command ended; the first call counts."""
        self._over.run(job_id=job_id, at=at)

    def exited_at(self, job_id: int) -> int | None:
        """Return when the open attempt's command ended, in microseconds; None if no end is known."""
        return self._exited_at.one(job_id=job_id)

    def exited(self, job_id: int, exit_code: int) -> None:
        """Note the exit code of the open attempt's command, which until then only its VM knows.

        Called before the VM may be destroyed.
        """
        with self._database.write():
            self._exited.run(job_id=job_id, exit_code=exit_code)

    def collected(self, job_id: int, now: int) -> None:
        """Note that the open attempt's artifacts are stored."""
        self._collected.run(job_id=job_id, now=now)

    def close(self, job_id: int, state: JobState, outcome: Outcome, now: int) -> None:
        """Close the open attempt, if there is one, with its outcome."""
        self._close.run(job_id=job_id, state=state, exit_code=outcome.exit_code, error_code=outcome.error_code, now=now)
