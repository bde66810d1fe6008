"""The state of an attempt's job: each change is stored, then announced (engine.md, "A job attempt")."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.builds.outcome import outcome_of
from actors.builds.states import Progress, next_state
from actors.messages import JobChanged
from storage import JobState

if TYPE_CHECKING:
    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.finalizing import Finalizer
    from actors.builds.outcome import AttemptResult, JobFailure
    from actors.builds.states import JobEvent
    from actors.parts import Parts

_log = logging.getLogger(__name__)


class AttemptState:
    """The job's state, as its actor knows it and the storage has it.

    A change that returns False was not made, because the job was changed from outside (`ci-daemon build
    force-finish`); `now` is then the state that it was given.
    """

    def __init__(
        self, parts: Parts, assignment: Assignment, finalizer: Finalizer, supervisor: Address[JobChanged]
    ) -> None:
        self.now = assignment.job.state
        self._job, self._lease = assignment.job, assignment.lease
        self._finalizer = finalizer
        self._storage = parts.storage
        self._watchers = parts.watchers
        self._metrics = parts.metrics
        self._supervisor = supervisor

    @property
    def over(self) -> bool:
        """True once the attempt's end is recorded, so that only the VM is left to destroy."""
        return self.now.terminal or self.now is JobState.SCHEDULED

    def connected(self, member: str | None) -> None:
        """Record that the job's VM answers, and its member; the job's state stays as it is."""
        self._storage.leases.active(self._lease.id, self._job.id, member)

    def start(self) -> bool:
        """Record that the command runs, which is when its time and its billing begin."""
        if not self._storage.leases.start(self._lease.id, self._job.id, self._job.attempt):
            return self._reload()
        return self._change(JobState.RUNNING)

    def ending(self, event: JobEvent) -> JobState | None:
        """Return the job's state while this event ends its command; if it cannot, count it and return None."""
        target = next_state(self.now, event)
        if target is None or not target.ending:  # a job that is scheduled again is ended by its build
            self._metrics.dropped(self._job.uuid, self.now, event)
            return None
        return target

    def begin_to_end(self, target: JobState, timeout: JobFailure | None) -> bool:
        """Record that the command is being ended, and why."""
        if not self._storage.jobs.move(self._job.id, self.now, target, outcome_of(timeout), attempt=self._job.attempt):
            return self._reload()
        return self._change(target)

    def record(self, result: AttemptResult) -> bool:
        """Record the attempt's result, its lease's price and its debit in one transaction."""
        target = next_state(self.now, result.event)
        if target is None:
            self._metrics.dropped(self._job.uuid, self.now, result.event)
            return True
        if not self._finalizer.record(self.now, target, result):
            return self._reload()
        self._metrics.attempted(target, result)
        return self._change(target, soft_failed=result.soft_failed)

    def _change(self, state: JobState, *, soft_failed: bool = False) -> bool:
        """Note a state that is in the storage, and announce it."""
        self.now = state
        _log.info("attempt %d of %r is %s", self._job.attempt, self._job.step_key, state)
        self._watchers.notify(self._job.uuid)
        self._supervisor.post(JobChanged(self._job.id, Progress(state, soft_failed, self._job.attempt)))
        return True

    def _reload(self) -> bool:
        """Accept the state that was set from outside."""
        job = self._storage.jobs.get(self._job.id)
        self.now = job.state if job and job.attempt == self._job.attempt else JobState.SCHEDULED
        _log.info("job %s became %s meanwhile, so its VM is destroyed", self._job.uuid, self.now)
        self._watchers.notify(self._job.uuid)
        return False
