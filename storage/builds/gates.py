"""Gates of jobs: asked when a job is ready for all else, then decided once (engine.md, "Gates")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peewee

from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import GateNotAwaited
from storage.models.builds import BuildRow, EdgeRow, JobRow
from storage.models.environments import GateRow
from storage.records.environments import Gate, GateState
from storage.records.jobs import SKIPPED_BY_CONDITION, JobState

if TYPE_CHECKING:
    from storage.database.connection import Database

_GATE = Columns.of(Gate, GateRow)


class Gates:
    """The gates of jobs. A decision is of one job of one build, and is written before it is acted on.

    Safe in any thread.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        exists = peewee.fn.EXISTS
        this = GateRow.job == slot("job_id")
        gates = GateRow.select(*_GATE.selected)
        self._get = Query(database, lambda: gates.where(this), _GATE)
        self._of_build = Query(database, lambda: gates.join(JobRow).where(JobRow.build == slot("build_id")), _GATE)
        self._insert = Write(database, lambda: insert_into(GateRow))

        def waits() -> Any:  # noqa: ANN401 - peewee's
            return (
                JobRow.select(JobRow.id)
                .join(BuildRow)
                .where(
                    JobRow.id == GateRow.job,
                    JobRow.state == JobState.PENDING,
                    BuildRow.finished_at.is_null(),
                    BuildRow.cancel_requested == 0,
                )
            )

        self._decide = Write(
            database,
            lambda: GateRow.update(
                {
                    GateRow.state: slot("state"),
                    GateRow.decided_at: slot("now"),
                    GateRow.decided_by: slot("decided_by"),
                    GateRow.reason: slot("reason"),
                }
            ).where(this, GateRow.state == GateState.WAITING, exists(waits())),
        )
        self._forget = Write(database, lambda: GateRow.delete().where(this))
        at_gate = JobRow.environment.is_null(is_null=False) & (JobRow.state == JobState.PENDING)
        of_job = GateRow.select(GateRow.job).where(GateRow.job == JobRow.id)

        def builds(condition: Any) -> Any:  # noqa: ANN401 - peewee's
            rows = JobRow.select(JobRow.build).join(BuildRow)
            return rows.where(at_gate, BuildRow.waits_for.is_null()).distinct().where(condition)

        def due() -> Any:  # noqa: ANN401 - peewee's
            before = JobRow.alias()
            awaited = (
                EdgeRow.select(EdgeRow.from_job)
                .join(before, on=before.id == EdgeRow.from_job)
                .where(
                    EdgeRow.to_job == JobRow.id,
                    before.error_code.is_null() | before.error_code.not_in(SKIPPED_BY_CONDITION),
                    before.taken_from.is_null(),
                )
            )
            unasked = ~exists(of_job) & ~exists(awaited)
            return builds(exists(of_job.where(GateRow.state != GateState.WAITING)) | unasked)

        self._due = Query(database, due, first)
        self._is_due = Query(database, lambda: due().where(JobRow.build == slot("build_id")), first)
        self._waiting = Query(database, lambda: builds(exists(of_job.where(GateRow.state == GateState.WAITING))), first)

    def of_job(self, job_id: int) -> Gate | None:
        """Return the gate of a job; None if the job has none, or still waits for others."""
        return self._get.one(job_id=job_id)

    def of_build(self, build_id: int) -> dict[int, Gate]:
        """Return the gates of a build's jobs that were asked, by the id of the job."""
        return {gate.job_id: gate for gate in self._of_build.all(build_id=build_id)}

    def due(self) -> list[int]:
        """Return the ids of builds with a job whose gate is decided, or to be asked.

        It is to be asked of a job that needs no other which runs in its build; the others follow from ends of jobs.
        """
        return self._due.all()

    def is_due(self, build_id: int) -> bool:
        """Tell whether a build has such a job."""
        return self._is_due.one(build_id=build_id) is not None

    def waiting(self) -> list[int]:
        """Return the ids of builds with a job whose gate waits for an answer."""
        return self._waiting.all()

    def ask(self, job_id: int, seconds: int, *, opened: str | None = None) -> Gate:
        """Return the gate of a job, which waits from now on if it is new.

        With ``opened``, a reason, a new one is open at once.
        """
        with self._database.write():
            found = self._get.one(job_id=job_id)
            if found is not None:
                return found
            now = self._database.now()
            self._insert.run(
                job_id=job_id,
                state=GateState.WAITING if opened is None else GateState.APPROVED,
                asked_at=now,
                seconds=seconds,
                decided_at=None if opened is None else now,
                decided_by=None,
                reason=opened,
            )
            return written(self._get.one(job_id=job_id))

    def decide(self, job_id: int, *, approved: bool, by: str, reason: str | None) -> Gate:
        """Write a person's answer; return the gate.

        Raises GateNotAwaited if nobody waits for one, or no longer.
        """
        with self._database.write():
            gate = self._get.one(job_id=job_id)
            if gate is None:
                raise GateNotAwaited("its gate does not wait for an answer yet: the jobs before it have not ended")
            if self._is_late(gate):
                raise GateNotAwaited(f"its gate was to be answered by {gate.expires_at:%Y-%m-%d %H:%M:%S} UTC")
            state = GateState.APPROVED if approved else GateState.REJECTED
            if not self._decide.run(job_id=job_id, state=state, now=self._database.now(), decided_by=by, reason=reason):
                raise GateNotAwaited(_refusal(gate))
            return written(self._get.one(job_id=job_id))

    def expire(self, gate: Gate) -> Gate:
        """Return a gate as it is now: expired if it waits and its time is up."""
        if not self._is_late(gate):
            return gate
        with self._database.write():
            self._decide.run(
                job_id=gate.job_id, state=GateState.EXPIRED, now=self._database.now(), decided_by=None, reason=None
            )
            return self._get.one(job_id=gate.job_id) or gate

    def seconds_left(self, gate: Gate) -> float:
        """Return for how long a gate may still be answered, whatever happens to the wall clock."""
        return max(0.0, gate.seconds - self._database.timeline.seconds_since(gate.asked_at))

    def forget(self, job_id: int) -> None:
        """Remove the gate of a job that runs again, so that it is asked anew. In the caller's transaction."""
        self._forget.run(job_id=job_id)

    def _is_late(self, gate: Gate) -> bool:
        return gate.state is GateState.WAITING and self.seconds_left(gate) <= 0


def _refusal(gate: Gate) -> str:
    """Return why nobody may answer."""
    if gate.decided_by is None or gate.decided_at is None:
        return "its gate does not wait for an answer"
    return f"{gate.decided_by} {gate.state} it at {gate.decided_at:%Y-%m-%d %H:%M:%S} UTC"
