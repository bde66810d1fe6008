"""A command's time, which its VM keeps first and this process second (engine.md, "A job attempt", step 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.outcome import build_timeout
from actors.states import JobEvent

if TYPE_CHECKING:
    from actors.assignment import Assignment
    from actors.attempt import Prepared
    from actors.outcome import Fault, Limit
    from actors.vms import Exited
    from storage import Storage

__all__ = ["CommandTime"]

_VM_FIRST = 2.0
"""Seconds past its time that a command's VM has to end it, before this process does."""


class CommandTime:
    """The time that an attempt's command may take, and the time that it took.

    A VM is its job's to change, so its word counts only where this process knows no better.
    """

    def __init__(self, storage: Storage, assignment: Assignment) -> None:
        self._leases = storage.leases
        self._assignment = assignment
        self._limit: Limit | None = None
        self._ran = False

    @property
    def known(self) -> bool:
        """Whether this process has started the command, or asked its VM how far it is."""
        return self._limit is not None

    def begin(self, prepared: Prepared) -> float | None:
        """Take note of a VM's command; return in how many seconds to end it, None where it has ended."""
        self._limit, self._ran = prepared.limit, prepared.runs
        if not prepared.runs:
            return None
        return max(0.0, self._limit.seconds + _VM_FIRST - self.goes_on())

    def goes_on(self) -> float:
        """Record that the command still runs, which its VM cannot deny later; return for how many seconds it has."""
        return self._leases.seen(self._assignment.lease.id)

    def end(self, exited: Exited) -> Fault | None:
        """Record when the command ended; return whose time was up, where it was, by its VM's word or by the clock's.

        The VM's word for when that was is taken only where nobody saw the command run.
        """
        seconds_ago = None if self._ran else exited.seconds_ago
        took = self._leases.stopped(self._assignment.lease.id, self._assignment.job.id, seconds_ago)
        if self._limit is None:
            return None
        overran = seconds_ago is not None and took > self._limit.seconds + _VM_FIRST
        return self._limit.fault if exited.timed_out or overran else None

    def fault(self, event: JobEvent) -> Fault | None:
        """Say whose time is up, where a job is to end for that."""
        match event:
            case JobEvent.BUILD_TIMEOUT:
                return build_timeout(self._assignment.build)
            case JobEvent.STEP_TIMEOUT if self._limit is not None:
                return self._limit.fault
            case _:
                return None
