"""Jobs: the nodes of a build's graph, and their changes of state."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import peewee

from storage.database.instants import SECOND
from storage.database.statements import Columns, Query, Write, first, slot
from storage.models import BuildRow, EdgeRow, JobRow
from storage.records import Edge, Job, JobState, Outcome, Shape

if TYPE_CHECKING:
    from storage.billing.ledger import Ledger
    from storage.billing.metering import Meter
    from storage.builds.attempts import Attempts
    from storage.database.connection import Database
    from storage.leases.holds import Holds

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
        self._get = Query(database, jobs.where(this), columns)
        self._by_uuid = Query(database, jobs.where(JobRow.uuid == slot("uuid")), columns)
        self._of_build = Query(database, jobs.where(of_build).order_by(JobRow.position), columns)
        self._edges = Query(
            database,
            EdgeRow.select(*_EDGE.selected).join(JobRow, on=JobRow.id == EdgeRow.to_job).where(of_build),
            _EDGE,
        )
        with_vm = JobRow.select(JobRow.id).where(JobRow.build == BuildRow.id, JobRow.state.in_(_WITH_VM))
        self._builds_with_vms = Query(
            database,
            BuildRow.select(BuildRow.id)
            .where(BuildRow.finished_at.is_null(), peewee.fn.EXISTS(with_vm))
            .order_by(BuildRow.id),
            first,
        )
        coalesce = peewee.fn.COALESCE
        self._change = Write(
            database,
            JobRow.update(
                {
                    JobRow.state: slot("new"),
                    JobRow.exit_code: coalesce(slot("exit_code"), JobRow.exit_code),
                    JobRow.error_code: coalesce(slot("error_code"), JobRow.error_code),
                    JobRow.error_message: coalesce(slot("error_message"), JobRow.error_message),
                    JobRow.soft_failed: coalesce(slot("soft_failed"), JobRow.soft_failed),
                    JobRow.cache_hit: coalesce(slot("cache_hit"), JobRow.cache_hit),
                    JobRow.scheduled_at: coalesce(JobRow.scheduled_at, slot("scheduled_at")),
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

    def builds_with_vms(self) -> list[int]:
        """Return the ids of the unfinished builds with a job that may still have a VM, oldest first."""
        return self._builds_with_vms.all()

    def edges(self, build_id: int) -> list[Edge]:
        """Return the dependencies between a build's jobs."""
        return self._edges.all(build_id=build_id)

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
