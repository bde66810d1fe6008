"""What is left to do in a VM whose command has ended: keep what is wanted of it, and judge (engine.md, step 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.outcome import disk_fault, ending_of_exit
from actors.states import JobEvent
from actors.vms import VmError, VmLost

if TYPE_CHECKING:
    from actors.attempt import Assignment, Attempt
    from actors.outcome import Ending, Fault
    from actors.runtime import Runtime

__all__ = ["Closing"]


class Closing:
    """The steps between a command's exit and the record of its job's end; all of them block.

    Every one can be taken again by another process, which finds the exit code where this one wrote it down.
    """

    def __init__(self, runtime: Runtime, assignment: Assignment, attempt: Attempt) -> None:
        self._runtime = runtime
        self._assignment = assignment
        self._attempt = attempt
        self._job = assignment.job

    def close(self, exit_code: int, fault: Fault | None) -> Ending:
        """Return what the exit means, with the disk kept where others build in it.

        ``fault`` is why the command was killed, where it was. Raises VmLost where the VM went before its disk was kept.
        """
        fault = fault or self._cause(exit_code)
        lost = self._runtime.storage.attempts.lost(self._job.id)
        ending = ending_of_exit(exit_code, self._job, fault, lost_before=lost)
        if ending.event is JobEvent.RETRY:
            return ending
        return self._with_disk(ending, exit_code)

    def _cause(self, exit_code: int) -> Fault | None:
        """Look whether a command failed because its disk, or the host's, is full."""
        if exit_code == 0:
            return None
        try:
            use = self._attempt.measure()
        except VmError:
            return None
        return disk_fault(use, self._assignment.lease.shape, min_free=self._runtime.jobs.min_free_bytes)

    def _with_disk(self, ending: Ending, exit_code: int) -> Ending:
        """Keep the disk for those who build in it.

        Keeping it ends the VM, and with it what the VM knows of the exit: so that is written down before.
        """
        if not self._assignment.heirs or not (ending.satisfies or self._assignment.heirs_of_failure):
            return ending
        self._runtime.storage.attempts.exited(self._job.id, exit_code)
        try:
            self._attempt.snapshot()
        except VmLost:
            raise
        except VmError as error:
            return ending.without_disk(str(error))
        return ending
