"""Finalizing an attempt: artifacts, disk, outcome and record (engine.md, "A job attempt", step 5)."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.artifacts import Harvest
from actors.cache import cached_disk, keep_disk
from actors.holds import seconds_to_hold
from actors.messages import Released
from actors.outcome import disk_fault, ending_of_exit
from actors.runtime import Runtime, post
from actors.states import JobEvent
from actors.vms import VmError, VmLost
from storage import JobState

if TYPE_CHECKING:
    import storage
    from actors.assignment import Assignment
    from actors.attempt import Attempt
    from actors.outcome import Ending, Fault

__all__ = ["Closing"]


class Closing:
    """The steps from a command's exit to the record of its job's end. `close` blocks.

    Another process can repeat every step, and finds the recorded exit code.
    """

    def __init__(self, runtime: Runtime, assignment: Assignment, attempt: Attempt) -> None:
        self._runtime = runtime
        self._assignment = assignment
        self._attempt = attempt
        self._job = assignment.job
        self._kept = False

    def recorded_exit(self) -> int | None:
        """Return the exit code that an earlier actor recorded without finishing the attempt, or None."""
        attempt = self._last_attempt
        return attempt.exit_code if attempt is not None and attempt.finished_at is None else None

    def record(self, state: JobState, target: JobState, ending: Ending) -> bool:
        """Move the job from ``state`` to ``target``, with its lease's price, and its debit if it is over.

        All in one transaction; False and no change if the job is not in ``state`` (any more).
        """
        jobs, lease = self._runtime.storage.jobs, self._assignment.lease
        if target is JobState.SCHEDULED:
            self._runtime.storage.artifacts.discard(self._assignment.build, self._job)
            return jobs.retry(
                self._job.id,
                state,
                ending.outcome,
                lease_id=lease.id,
                billable=ending.billable,
                backoff_seconds=ending.backoff_seconds,
            )
        why = ending.outcome.error_message
        outcome = replace(ending.outcome, error_message=why and self._attempt.masked(why))
        held = ending.held_in(target)
        finished = jobs.finish(
            self._job.id, state, target, outcome, lease_id=lease.id, billable=ending.billable, held_seconds=held
        )
        if finished and target is JobState.PASSED and self._kept:
            keep_disk(self._runtime, self._assignment.build, self._job, lease.uuid)
        if finished and held:
            self._observe()
        return finished

    def let_go(self) -> None:
        """Return the lease, whose VM is gone, to the pool."""
        self._runtime.storage.leases.end(self._assignment.lease.id)
        self._observe()
        post(self._runtime.crew.pool, Released(self._assignment.lease.id))

    def close(self, exit_code: int, fault: Fault | None) -> Ending:
        """Return the attempt's ending; unless it is a retry, collect artifacts and keep the disk if needed.

        ``fault`` is why the command was killed, if it was. Raises VmLost if the VM is lost before a disk that other
        jobs need is kept.
        """
        fault = fault or self._cause(exit_code)
        lost = self._runtime.storage.attempts.lost(self._job.id)
        ending = ending_of_exit(exit_code, self._job, fault, lost_before=lost)
        if ending.event is JobEvent.RETRY:
            return ending
        self._collect()
        return self._with_disk(ending)

    def _observe(self) -> None:
        if (lease := self._runtime.storage.leases.get(self._assignment.lease.id)) is not None:
            self._runtime.observations.ended(lease)

    @property
    def _last_attempt(self) -> storage.Attempt | None:
        attempts = self._runtime.storage.attempts.of_job(self._job.id)
        return attempts[-1] if attempts else None

    def _collect(self) -> None:
        """Store the job's artifacts, unless an earlier process did. An error is only noted in the log."""
        stored = self._runtime.storage
        last = self._last_attempt
        if not self._job.artifacts or (last is not None and last.collected_at is not None):
            return
        try:
            harvest = self._attempt.collect()
        except VmError as error:
            harvest = Harvest(remarks=[f"none are kept: {error}"])
        stored.artifacts.store(self._assignment.build, self._job, harvest.files.values())
        self._attempt.notice(harvest.notice())

    def _cause(self, exit_code: int) -> Fault | None:
        """Return a fault if the disk explains the exit, else None.

        A failed command is checked against its own disk and the host's, a passed one only against its own.
        """
        passed = exit_code == 0
        if passed and not self._attempt.may_have_filled_disk():
            return None
        try:
            use = self._attempt.measure()
        except VmError:
            return None
        return disk_fault(replace(use, fills_host=use.fills_host and not passed), self._assignment.lease.shape)

    def _with_disk(self, ending: Ending) -> Ending:
        """Keep the disk if other jobs build in it, or later builds may.

        If it cannot be kept, the job fails if other jobs need it; otherwise that is only noted in the log.
        """
        has_heirs = self._assignment.heirs and (ending.satisfies or self._assignment.heirs_of_failure)
        if not has_heirs and not (ending.event is JobEvent.PASSED and self._is_to_be_cached()):
            return self._with_vm(ending)
        try:
            self._attempt.snapshot()
        except VmError as error:
            if not has_heirs:
                self._attempt.notice(f"the disk could not be kept for later builds: {error}")
                return ending
            if isinstance(error, VmLost):
                raise
            return ending.without_disk(str(error))
        self._kept = True
        return ending

    def _with_vm(self, ending: Ending) -> Ending:
        """Hold the VM of a failed job if its build asks for that, and say in the log how to enter it."""
        build = self._assignment.build
        seconds = 0 if ending.event is JobEvent.PASSED else seconds_to_hold(self._runtime, build)
        if seconds:
            look = shlex.join(["ci-daemon", "debug", build.name, self._job.step_key])
            self._attempt.notice(f"the VM is held for {seconds} s; for a shell in it, on the host: {look}")
        return replace(ending, held_seconds=seconds)

    def _is_to_be_cached(self) -> bool:
        """Tell whether the job's disk belongs in the cache, and the cache has none yet."""
        wanted = self._job.cache_key is not None and self._runtime.settings.cache.max_bytes > 0
        return wanted and cached_disk(self._runtime, self._assignment.build, self._job) is None
