"""The state of an attempt's job, and the time of its command.

Each change is stored, then announced (engine.md, "A job attempt"). The time is kept first by the command's VM and
second by this process (engine.md, "Time limits").
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.builds.outcome import build_timeout, outcome_of
from actors.builds.states import JobEvent, Progress, next_state
from actors.messages import JobChanged
from storage import JobsJoined, JobState

if TYPE_CHECKING:
    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.finalizing import Finalizer
    from actors.builds.attempt.runner import Prepared
    from actors.builds.outcome import AttemptResult, JobFailure, TimeLimit
    from actors.parts import Parts
    from actors.vms import Exited
    from storage import ImageDigests, Storage

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

    def start(self, digests: ImageDigests) -> bool:
        """Record that the command runs, and from which images, which is when its time and its billing begin."""
        job = self._job
        if not self._storage.leases.start(self._lease.id, job.id, job.attempt, digests):
            return self._reload()
        return self.change(JobState.RUNNING)

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
        return self.change(target)

    def record(self, result: AttemptResult) -> bool:
        """Record the attempt's result, its lease's price and its debit in one transaction."""
        while True:
            result = self._finalizer.settled(result)
            target = next_state(self.now, result.event)
            if target is None:
                self._metrics.dropped(self._job.uuid, self.now, result.event)
                return True
            try:
                recorded = self._finalizer.record(self.now, target, result)
            except JobsJoined:
                continue
            break
        if not recorded:
            return self._reload()
        self._metrics.attempted(target, result)
        return self.change(target, soft_failed=result.soft_failed)

    def change(self, state: JobState, *, soft_failed: bool = False) -> bool:
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


class CommandTime:
    """The time that an attempt's command may take, and the time that it took.

    With some providers a job may forge its VM's report of the end, so the report is used only if this process did not
    watch the command. ``vm_first`` is the time in seconds that a VM has beyond the limit to end its command itself.
    """

    def __init__(self, storage: Storage, assignment: Assignment, vm_first: float) -> None:
        self._leases = storage.leases
        self._assignment = assignment
        self._vm_first = vm_first
        self._limit: TimeLimit | None = None
        self._ran = False

    @property
    def known(self) -> bool:
        """True once this process has started the command, or asked its VM about it."""
        return self._limit is not None

    def started(self, prepared: Prepared) -> float:
        """Note a command whose start has just been recorded; return the seconds until it must end."""
        self._limit, self._ran = prepared.limit, True
        return max(0.0, self._limit.seconds + self._vm_first)

    def found(self, prepared: Prepared) -> float | None:
        """Note a command that was started before; return the seconds until it must end, None if it has ended."""
        self._limit, self._ran = prepared.limit, prepared.runs
        if not prepared.runs:
            return None
        return max(0.0, self._limit.seconds + self._vm_first - self.confirm_running())

    def confirm_running(self) -> float:
        """Record that the command still runs, which its VM cannot deny later; return its seconds so far."""
        return self._leases.note_running(self._assignment.lease.id)

    def end(self, exited: Exited) -> JobFailure | None:
        """Record the end of the command; return the failure if its time was up, by its VM's word or the clock.

        The VM's word for the moment of the end is taken only if this process did not see the command run, or was
        stopped as it ended.
        """
        seconds_ago = None if self._ran and exited.watched else exited.seconds_ago
        took = self._leases.note_exit(self._assignment.lease.id, self._assignment.job.id, seconds_ago)
        if self._limit is None:
            return None
        overran = seconds_ago is not None and took > self._limit.seconds + self._vm_first
        return self._limit.failure if exited.timed_out or overran else None

    def failure(self, event: JobEvent) -> JobFailure | None:
        """Return the failure of a time-out event; None for other events."""
        match event:
            case JobEvent.BUILD_TIMEOUT:
                return build_timeout(self._assignment.build)
            case JobEvent.STEP_TIMEOUT if self._limit is not None:
                return self._limit.failure
            case _:
                return None
