"""Finalizing an attempt: artifacts, disk, outcome and record (engine.md, "The end")."""

from __future__ import annotations

import logging
import shlex
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.builds.attempt.artifacts import Collected
from actors.builds.attempt.generating import JobGeneration
from actors.builds.outcome import JobFailure, disk_failure, result_of_exit
from actors.builds.states import JobEvent
from actors.cleanup.reaper import seconds_to_hold
from actors.messages import Released
from actors.vms import VmError, VmLost
from storage import JobErrorCode, JobState

if TYPE_CHECKING:
    import storage
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.disk_cache import DiskCache
    from actors.builds.attempt.runner import AttemptRunner
    from actors.builds.outcome import AttemptResult
    from actors.ir import IrSettings
    from actors.parts import Parts
    from actors.settings import JobSettings


_log = logging.getLogger(__name__)

NO_PREVIEWS = (
    "no preview: this service has no address for previews (previews.url), lets none be awake (previews.most), or keeps"
    " no disks (retention.kept_disks_days)"
)
"""The notice in the log of a job that declares a preview which it does not get."""


class Finalizer:
    """The phases from a command's exit to the record of its job's end. `finalize` blocks.

    Another process can repeat every phase, and finds the recorded exit code.
    """

    def __init__(
        self,
        parts: Parts,
        assignment: Assignment,
        attempt: AttemptRunner,
        *,
        settings: JobSettings,
        limits: IrSettings,
        cache: DiskCache,
    ) -> None:
        self._assignment = assignment
        self._attempt = attempt
        self._storage = parts.storage
        self._excuse_of = parts.excuse
        self._cache = cache
        self._settings = settings
        self._live_settings = parts.live_settings
        self._metrics = parts.metrics
        self._pool = parts.addresses.pool
        self._job = assignment.job
        self._generation = JobGeneration(parts.storage, limits, assignment.build, assignment.job)
        self._disk_kept = self._previewed = False

    def recorded_exit(self) -> int | None:
        """Return the exit code that an earlier actor recorded without finishing the attempt, or None."""
        attempt = self._last_attempt
        return attempt.exit_code if attempt is not None and attempt.finished_at is None else None

    def record(self, state: JobState, target: JobState, result: AttemptResult) -> bool:
        """Move the job from ``state`` to ``target``, with its lease's price, and its debit if it is over.

        All in one transaction, with the jobs that it has generated; False and no change if the job is not in ``state``
        (any more). Raises JobsJoined if that needs another plan of those jobs.
        """
        jobs, lease = self._storage.jobs, self._assignment.lease
        self._attempt.log.close()  # the notices of an attempt that was not finalized are on the disk, too
        if target is JobState.SCHEDULED:
            self._storage.artifacts.discard(self._assignment.build, self._job)
            self._storage.told.discard(self._job.id)
            return jobs.retry(
                self._job.id,
                state,
                result.outcome,
                lease_id=lease.id,
                billable=result.billable,
                backoff_seconds=result.backoff_seconds,
                attempt=self._job.attempt,
            )
        why = result.outcome.error_message
        outcome = replace(result.outcome, error_message=why and self._attempt.log.masked(why))
        held = result.held_in(target)
        with self._storage.transaction():
            finished = jobs.finish(
                self._job.id,
                state,
                target,
                outcome,
                lease_id=lease.id,
                billable=result.billable,
                held_seconds=held,
                attempt=self._job.attempt,
            )
            if finished and target is JobState.PASSED:
                self._generation.add()
                if self._previewed:
                    self._storage.previews.add(self._assignment.build, self._job, lease.uuid)
        if finished and target is JobState.PASSED and self._disk_kept:
            self._cache.keep(self._assignment.build, self._job, lease)
        if finished and held:
            self._observe_lease()
        return finished

    def settled(self, result: AttemptResult) -> AttemptResult:
        """Return the result to record.

        A job fails if another one has generated jobs of the same names meanwhile.
        """
        failure = self._generation.settle() if result.event is JobEvent.PASSED else None
        return result if failure is None else result.lacking(failure, self._job)

    def release_lease(self) -> None:
        """Return the lease, whose VM is gone, to the pool."""
        self._storage.leases.end(self._assignment.lease.id)
        self._observe_lease()
        self._pool.post(Released(self._assignment.lease.id))

    def finalize(self, exit_code: int, failure: JobFailure | None) -> AttemptResult:
        """Return the attempt's result; unless it is a retry, collect artifacts and keep the disk if needed.

        ``failure`` is why the command was killed, if it was. Raises VmLost if the VM is lost before the artifacts that
        the job promised are kept, or a disk that other jobs need.
        """
        failure = failure or self._cause(exit_code)
        lost = self._storage.attempts.lost(self._job.id)
        result = result_of_exit(exit_code, self._job, failure, lost_before=lost)
        if result.event is not JobEvent.RETRY:
            result = self._judge_outputs(self._excuse(self._collect(result)))
            result = self._generate(result)
            self._keep_folders(result)
            result = self._keep_disk(self._keep_workspace(result))
        self._attempt.log.settle()
        return result

    def _observe_lease(self) -> None:
        if (lease := self._storage.leases.get(self._assignment.lease.id)) is not None:
            self._metrics.ended(lease)

    @property
    def _last_attempt(self) -> storage.Attempt | None:
        attempts = self._storage.attempts.of_job(self._job.id)
        return attempts[-1] if attempts else None

    def _collect(self, result: AttemptResult) -> AttemptResult:
        """Store the artifacts, unless an earlier process did; a job that would pass without all fails.

        Raises VmLost if the VM of such a job is lost before they are kept; of another job that is only noted.
        """
        last, stored = self._last_attempt, self._storage.artifacts
        if not self._job.artifacts:
            return result
        if last is not None and last.collected_at is not None and stored.are_whole(self._job.id):
            return result
        try:
            collected = self._attempt.collect()
        except VmLost as error:
            lost = f"the VM was lost before its artifacts were kept: {error}"
            if result.satisfies:
                self._attempt.log.notice(lost)
                raise VmLost(lost) from error
            collected = Collected(lacks=[lost])
        failure = collected.failure
        files = collected.files.values()
        stored.store(self._assignment.build, self._job, files, complete=failure is None)
        self._attempt.log.notice(collected.notice())
        return result if failure is None else result.lacking(failure, self._job)

    def _excuse(self, result: AttemptResult) -> AttemptResult:
        """Return the result of a soft failure if tests in quarantine alone made the command fail."""
        outcome, last = result.outcome, self._last_attempt
        by_command = result.event is JobEvent.FAILED and outcome.error_code is None and outcome.exit_code is not None
        if not by_command or result.soft_failed or not self._job.artifacts or last is None or last.collected_at is None:
            return result
        build, job, stored = self._assignment.build, self._job, self._storage.quarantine
        if not stored.in_force(build.pipeline_id):
            return result
        self._attempt.log.settle()  # which is looked through
        found = self._excuse_of(build, job, self._assignment.lease, outcome.exit_code or 0)
        stored.excuse(job.id, () if found is None else found.tests)
        if found is None:
            return result
        if found.why_not is not None:
            self._attempt.log.notice(f"the quarantine of tests does not excuse this job: {found.why_not}")
            return result
        self._attempt.log.notice(f"{found.words}; so this is a soft failure")
        return replace(result, outcome=replace(outcome, soft_failed=True, error_message=found.words))

    def _judge_outputs(self, result: AttemptResult) -> AttemptResult:
        """Fail a job that would pass without all of its outputs, which are stored before its exit is."""
        outputs = self._storage.told.outputs(self._job.id)
        if outputs is None or outputs.error is None:
            return result
        return result.lacking(JobFailure(JobErrorCode.OUTPUTS_INVALID, outputs.error), self._job)

    def _generate(self, result: AttemptResult) -> AttemptResult:
        """Plan the jobs that a job which passes generates; one whose file is wrong fails. Raises VmLost."""
        if self._job.generates is None or result.event is not JobEvent.PASSED:
            return result
        failure, notice = self._generation.read(self._attempt.generated_file, self._attempt.log.masker)
        self._attempt.log.notice(notice)
        return result if failure is None else result.lacking(failure, self._job)

    def _keep_folders(self, result: AttemptResult) -> None:
        """Keep folders of a job that passes for later builds; if its VM is lost meanwhile, that is only noted."""
        if result.event is not JobEvent.PASSED:
            return
        try:
            lines = self._attempt.keep_folders()
        except VmError as error:
            lines = [f"the folders to keep could not be read: {error}"]
        if lines:
            self._attempt.log.notice("\n".join(lines))

    def _keep_workspace(self, result: AttemptResult) -> AttemptResult:
        """Keep the workspace for jobs that take it; without it the job fails if it would have satisfied them."""
        assignment = self._assignment
        if not (assignment.workspace_takers if result.satisfies else assignment.workspace_takers_after_failure):
            return result
        try:
            self._attempt.keep_workspace(needed=result.satisfies)
        except VmError as error:
            if not result.satisfies:
                self._attempt.log.notice(f"the workspace could not be kept for other jobs: {error}")
                return result
            if isinstance(error, VmLost):
                raise
            return result.without_disk(str(error))
        return result

    def _cause(self, exit_code: int) -> JobFailure | None:
        """Return a failure if the disk explains the exit, else None.

        A failed command is checked against its own disk and the host's, a passed one only against its own.
        """
        passed = exit_code == 0
        if passed and not self._attempt.may_have_filled_disk():
            return None
        try:
            use = self._attempt.measure()
        except VmError:
            return None
        return disk_failure(replace(use, fills_host=use.fills_host and not passed), self._assignment.lease.shape)

    def _keep_disk(self, result: AttemptResult) -> AttemptResult:
        """Keep the disk if other jobs build in it, or later builds may.

        If it cannot be kept, the job fails if other jobs need it; otherwise that is only noted in the log.
        """
        needed = self._assignment.disk_children and (result.satisfies or self._assignment.disk_children_of_failure)
        needed = needed or self._generation.needs_disk
        passed = result.event is JobEvent.PASSED
        shown = self._live_settings.now.preview_of(self._job) if passed else None
        if passed and self._job.preview and shown is None:
            self._attempt.log.notice(NO_PREVIEWS)
        cached = passed and self._cache.lacks(self._assignment.build, self._job, self._assignment.lease)
        if not (needed or cached or shown):
            return self._keep_failed(self._hold_vm(result))
        try:
            self._attempt.snapshot(passed=passed, needed=needed)
        except VmError as error:
            if not needed:
                uses = " or ".join(use for use, wanted in (("later builds", cached), ("a preview", shown)) if wanted)
                self._attempt.log.notice(f"the disk could not be kept for {uses}: {error}")
                return result
            if isinstance(error, VmLost):
                raise
            return result.without_disk(str(error))
        self._disk_kept = True
        if shown is not None:
            self._previewed = True
            self._attempt.log.notice(f"preview: {shown}")
        if result.event is not JobEvent.PASSED and self._keeps_failed:
            self._storage.kept_disks.keep(self._assignment.lease.uuid, self._assignment.build)
        return result

    @property
    def _keeps_failed(self) -> bool:
        """True if disks of failed jobs are kept, and the host has room for this one."""
        settings, free = self._live_settings.now.retention, shutil.disk_usage(self._storage.directory).free
        return settings.kept_disks_bytes > 0 and free >= self._settings.min_free_bytes

    def _keep_failed(self, result: AttemptResult) -> AttemptResult:
        """Keep the disk of a job that failed, unless its VM is held; nothing depends on it."""
        if result.event is JobEvent.PASSED or result.held_seconds or not self._keeps_failed:
            return result
        try:
            self._attempt.snapshot(passed=False, needed=False)
        except VmError as error:
            _log.info("the disk of the failed job %s is not kept: %s", self._job.uuid, error)
        else:
            self._storage.kept_disks.keep(self._assignment.lease.uuid, self._assignment.build)
        return result

    def _hold_vm(self, result: AttemptResult) -> AttemptResult:
        """Hold the VM of a failed job if its build asks for that, and say in the log how to enter it."""
        build = self._assignment.build
        seconds = 0 if result.event is JobEvent.PASSED else seconds_to_hold(self._storage, self._settings, build)
        if seconds:
            state = str(self._storage.directory)
            look = shlex.join(["ci-daemon", "--state-dir", state, "debug", build.name, self._job.step_key])
            self._attempt.log.notice(f"the VM is held for {seconds} s; for a shell in it, on the host: {look}")
        return replace(result, held_seconds=seconds)
