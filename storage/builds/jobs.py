"""Jobs, the nodes of a build's graph, with their attempts and their changes of state."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models.builds import AttemptRow, BuildRow, EdgeRow, JobRow
from storage.records.jobs import Attempt, Edge, EdgeKind, Job, JobState, Outcome, Shape

if TYPE_CHECKING:
    from storage.billing.holds import Holds
    from storage.billing.ledger import Ledger
    from storage.billing.usage import Meter
    from storage.database.connection import Database


_NOTHING = Outcome()
_WITH_VM = tuple(state for state in JobState if state.has_vm)


def _columns() -> Columns[Job]:
    parent = JobRow.alias()
    in_order = peewee.NodeList((parent.uuid, peewee.SQL("ORDER BY"), parent.position))
    depends_on = (
        EdgeRow.select(peewee.fn.GROUP_CONCAT(in_order))
        .join(parent, on=parent.id == EdgeRow.from_job)
        .where(EdgeRow.to_job == JobRow.id)
    )
    return Columns.of(
        Job, JobRow, shape=Columns.of(Shape, JobRow), depends_on=(peewee.fn.COALESCE(depends_on, ""), _uuids)
    )


_EDGE = Columns.of(Edge, EdgeRow)
_GUARD = Columns(lambda environment, secrets: (environment, secrets), JobRow.environment, JobRow.secrets)


class Jobs:
    """The jobs of builds. Safe in any thread."""

    def __init__(self, database: Database, attempts: Attempts, meter: Meter, ledger: Ledger, holds: Holds) -> None:
        self._database = database
        self._attempts = attempts
        self._meter = meter
        self._ledger = ledger
        self._holds = holds
        columns = _columns()
        jobs = JobRow.select(*columns.selected)
        of_build = JobRow.build == slot("build_id")
        this = JobRow.id == slot("id")
        self._get = Query(database, lambda: jobs.where(this), columns)
        self._by_uuid = Query(database, lambda: jobs.where(JobRow.uuid == slot("uuid")), columns)
        self._of_build = Query(database, lambda: jobs.where(of_build).order_by(JobRow.position), columns)
        self._guarding = Query(
            database,
            lambda: JobRow.select(*_GUARD.selected).where(
                of_build, JobRow.environment.is_null(is_null=False) | (JobRow.secrets != "[]")
            ),
            _GUARD,
        )
        self._edges = Query(
            database,
            lambda: EdgeRow.select(*_EDGE.selected).join(JobRow, on=JobRow.id == EdgeRow.to_job).where(of_build),
            _EDGE,
        )
        self._before = Query(
            database, lambda: EdgeRow.select(*_EDGE.selected).where(EdgeRow.to_job == slot("job_id")), _EDGE
        )
        with_vm = JobRow.select(JobRow.id).where(JobRow.build == BuildRow.id, JobRow.state.in_(_WITH_VM))
        self._builds_with_vms = Query(
            database,
            lambda: (
                BuildRow.select(BuildRow.id)
                .where(BuildRow.finished_at.is_null(), peewee.fn.EXISTS(with_vm))
                .order_by(BuildRow.id)
            ),
            first,
        )
        coalesce = peewee.fn.COALESCE
        self._change = Write(
            database,
            lambda: JobRow.update(
                {
                    JobRow.state: slot("new"),
                    JobRow.exit_code: coalesce(slot("exit_code"), JobRow.exit_code),
                    JobRow.error_code: coalesce(slot("error_code"), JobRow.error_code),
                    JobRow.error_message: coalesce(slot("error_message"), JobRow.error_message),
                    JobRow.soft_failed: coalesce(slot("soft_failed"), JobRow.soft_failed),
                    JobRow.cache_hit: coalesce(slot("cache_hit"), JobRow.cache_hit),
                    JobRow.scheduled_at: coalesce(JobRow.scheduled_at, slot("scheduled_at")),
                    JobRow.turn_at: coalesce(JobRow.scheduled_at, slot("scheduled_at")) + JobRow.yields,
                    JobRow.not_before: slot("not_before"),
                    JobRow.awaited_image: None,
                    JobRow.queued_at: coalesce(slot("queued_at"), JobRow.queued_at),
                    JobRow.started_at: coalesce(JobRow.started_at, slot("started_at")),
                    JobRow.finished_at: slot("finished_at"),
                }
            ).where(
                this,
                JobRow.state == slot("old"),
                JobRow.finished_at.is_null(),
                JobRow.attempt == coalesce(slot("attempt"), JobRow.attempt),
            ),
        )

    def get(self, job_id: int) -> Job | None:
        """Return a job by row id."""
        return self._get.one(id=job_id)

    def by_uuid(self, uuid: str) -> Job | None:
        """Return a job by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def of_build(self, build_id: int) -> list[Job]:
        """Return a build's jobs in DAG creation order."""
        return self._of_build.all(build_id=build_id)

    def guarding(self, build_id: int) -> list[tuple[str | None, tuple[str, ...]]]:
        """Return the environment and the names of secrets of each of a build's jobs that has either."""
        return self._guarding.all(build_id=build_id)

    def builds_with_vms(self) -> list[int]:
        """Return the ids of the unfinished builds with a job that may still have a VM, oldest first."""
        return self._builds_with_vms.all()

    def edges(self, build_id: int) -> list[Edge]:
        """Return the dependencies between a build's jobs."""
        return self._edges.all(build_id=build_id)

    def edges_to(self, job_id: int) -> list[Edge]:
        """Return the dependencies of a job on others."""
        return self._before.all(job_id=job_id)

    def move(
        self,
        job_id: int,
        old: JobState,
        new: JobState,
        outcome: Outcome = _NOTHING,
        *,
        attempt: int | None = None,
    ) -> bool:
        """Move a job from state ``old`` to ``new``; False and no change if it is not in ``old``.

        False too if it is not at the attempt number ``attempt``, if that is given.

        The first ``scheduled`` sets ``scheduled_at``, the first ``running`` sets ``started_at``, and a terminal state
        sets ``finished_at``, to the command's end if that is known. A terminal state also closes the open attempt and
        writes the debit if a command of the job ever ran.
        """
        with self._database.write():
            if not self._changed(job_id, old, new, outcome, attempt=attempt):
                return False
            if new.terminal:
                self._conclude(job_id, new, outcome)
            return True

    def finish(
        self,
        job_id: int,
        old: JobState,
        new: JobState,
        outcome: Outcome,
        *,
        lease_id: int | None,
        billable: bool,
        held_seconds: int = 0,
        attempt: int | None = None,
    ) -> bool:
        """Finish a job: its state, its attempt, its lease's price and its one debit, in one transaction.

        The lease stays live until its VM is gone (`Leases.end`). With ``held_seconds`` the VM is held for so long.
        False and no change if the job is not in ``old``, or at another attempt than ``attempt``.
        """
        if not new.terminal:
            raise ValueError(f"a job does not finish as {new}")
        with self._database.write():
            if not self._changed(job_id, old, new, outcome, attempt=attempt):
                return False
            if lease_id is not None:
                self._meter.close(lease_id, billable=billable)
                if held_seconds:
                    self._holds.begin(lease_id, held_seconds)
            self._conclude(job_id, new, outcome)
            return True

    def retry(
        self,
        job_id: int,
        old: JobState,
        outcome: Outcome,
        *,
        lease_id: int | None,
        billable: bool,
        backoff_seconds: int = 0,
        attempt: int | None = None,
    ) -> bool:
        """Return a job to its old place in the queue and close its attempt and lease, in one transaction.

        The outcome is the attempt's. The next attempt may begin after ``backoff_seconds``.
        """
        with self._database.write():
            not_before = self._database.now() + backoff_seconds * SECOND if backoff_seconds else None
            if not self._changed(job_id, old, JobState.SCHEDULED, _NOTHING, not_before=not_before, attempt=attempt):
                return False
            self._attempts.close(job_id, JobState.FAILED, outcome, self._database.now())
            if lease_id is not None:
                self._meter.close(lease_id, billable=billable)
            return True

    def _changed(
        self,
        job_id: int,
        old: JobState,
        new: JobState,
        outcome: Outcome,
        *,
        not_before: int | None = None,
        attempt: int | None,
    ) -> bool:
        """Compare and set a job's state and the instants that go with it, inside the caller's transaction."""
        now = self._database.now()
        exited_at = self._attempts.exited_at(job_id) if new.terminal else None
        changed = self._change.run(
            id=job_id,
            old=old,
            new=new,
            attempt=attempt,
            not_before=not_before,
            scheduled_at=now if new is JobState.SCHEDULED else None,
            queued_at=(not_before or now) if new is JobState.SCHEDULED else None,
            started_at=now if new is JobState.RUNNING else None,
            finished_at=(exited_at or now) if new.terminal else None,
            **asdict(outcome),
        )
        return changed == 1

    def _conclude(self, job_id: int, state: JobState, outcome: Outcome) -> None:
        """Close the attempt and write the debit of a job that just ended, inside the caller's transaction."""
        self._attempts.close(job_id, state, outcome, self._database.now())
        self._ledger.debit_job(job_id)


def _uuids(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(",")) if joined else ()


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
            lambda: AttemptRow.select(*_ATTEMPT.selected).where(of_job).order_by(AttemptRow.number),
            _ATTEMPT,
        )
        self._of_build = Query(
            database,
            lambda: (
                AttemptRow.select(*_ATTEMPT.selected)
                .join(JobRow)
                .where(JobRow.build == slot("build_id"))
                .order_by(JobRow.position, AttemptRow.number)
            ),
            _ATTEMPT,
        )
        self._lost = Query(
            database,
            lambda: (
                AttemptRow.select(peewee.fn.COUNT(AttemptRow.number))
                .join(JobRow)
                .where(of_job, AttemptRow.number > JobRow.attempts_before, AttemptRow.error_code.is_null(is_null=False))
            ),
            first,
        )

        def first_of_image() -> Any:  # noqa: ANN401 - peewee's
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
            return (
                own.select(own.number)
                .join(JobRow, on=JobRow.id == own.job)
                .where(own.job == slot("job_id"), own.number == slot("number"), ~peewee.fn.EXISTS(before))
            )

        self._first_of_image = Query(database, first_of_image, first)
        self._open = Write(
            database,
            lambda: insert_into(
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
                "generated",
            ),
        )
        leased_at = peewee.fn.COALESCE(AttemptRow.leased_at, slot("now"))
        self._leased = Write(
            database, lambda: AttemptRow.update({AttemptRow.leased_at: leased_at}).where(of_job, unfinished)
        )
        exited_at = peewee.fn.COALESCE(AttemptRow.exited_at, slot("at"))
        self._over = Write(
            database, lambda: AttemptRow.update({AttemptRow.exited_at: exited_at}).where(of_job, unfinished)
        )
        self._exited_at = Query(
            database, lambda: AttemptRow.select(AttemptRow.exited_at).where(of_job, unfinished), first
        )
        self._cache_name = Query(
            database,
            lambda: AttemptRow.select(AttemptRow.cache_name).where(of_job, unfinished),
            lambda row: row[0] and str(row[0]),
        )
        self._name = Write(
            database, lambda: AttemptRow.update({AttemptRow.cache_name: slot("cache_name")}).where(of_job, unfinished)
        )
        self._start = Write(
            database,
            lambda: AttemptRow.update({AttemptRow.state: JobState.RUNNING, AttemptRow.started_at: slot("now")}).where(
                of_job, unfinished
            ),
        )
        self._exited = Write(
            database, lambda: AttemptRow.update({AttemptRow.exit_code: slot("exit_code")}).where(of_job, unfinished)
        )
        self._collected = Write(
            database, lambda: AttemptRow.update({AttemptRow.collected_at: slot("now")}).where(of_job, unfinished)
        )
        self._close = Write(
            database,
            lambda: AttemptRow.update(
                {
                    AttemptRow.state: slot("state"),
                    AttemptRow.finished_at: slot("now"),
                    AttemptRow.exit_code: slot("exit_code"),
                    AttemptRow.error_code: slot("error_code"),
                    AttemptRow.secrets: None,
                    AttemptRow.generated: None,
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
