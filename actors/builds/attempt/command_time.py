"""The time of a command, kept first by its VM and second by this process (engine.md, "Time limits")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.builds.outcome import build_timeout
from actors.builds.states import JobEvent

if TYPE_CHECKING:
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.runner import Prepared
    from actors.builds.outcome import JobFailure, TimeLimit
    from actors.vms import Exited
    from storage import Storage


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
