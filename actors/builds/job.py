"""The job actor: takes a job through one attempt, and owns every change of its state meanwhile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, assert_never

from actors.builds.attempt.finalizing import Finalizer
from actors.builds.attempt.log import why_not_kept
from actors.builds.attempt.runner import AttemptRunner, Prepared
from actors.builds.attempt.state import AttemptState, CommandTime
from actors.builds.job_messages import (
    Acquired,
    CommandTimedOut,
    Destroyed,
    Finalized,
    JobMessage,
    JobTask,
    KillOverdue,
    MeasureDisk,
    PhaseDone,
    RecordAgain,
)
from actors.builds.outcome import (
    AttemptResult,
    DiskUse,
    JobFailure,
    disk_failure,
    failure_of,
    result_of_exit,
    result_of_failure,
    seconds_to_full,
    timeout_on_record,
)
from actors.builds.states import JobEvent
from actors.supervision import Supervised, set_log_context
from actors.vms import Exited
from storage import JobErrorCode, JobState

if TYPE_CHECKING:
    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.disk_cache import CacheNames, DiskCache
    from actors.messages import ChildStopped, JobChanged
    from actors.parts import VmParts
    from actors.timer import Alarm

_RECORD_RETRY_SECONDS = 1.0
_MEASURE_SECONDS = 1.0
_SPREAD_SECONDS = 15
"""Seconds over which the first measurements of disks after a restart are spread."""


class JobActor(Supervised[JobMessage, JobTask]):
    """Drives one attempt: VM, source, command, log, snapshot, result, release.

    The phases run one after the other on worker threads (`AttemptRunner`); between them this actor decides, so
    that a cancel or a time-out works at every moment. A job that already has a VM is continued where it is. The way is
    a line: this actor, its job's state, the finalizer, the runner; none of them calls one before it. The settings are
    those of the attempt's start.
    """

    def __init__(
        self,
        parts: VmParts,
        supervisor: Address[JobChanged | ChildStopped],
        assignment: Assignment,
        *,
        names: CacheNames,
        cache: DiskCache,
    ) -> None:
        super().__init__(parts.timer, supervisor, parts.timings.retry, parts.storage.let_go)
        settings = parts.live_settings.now
        self._assignment = assignment
        self._attempt = AttemptRunner(parts, assignment, settings=settings, names=names)
        self._finalizer = Finalizer(
            parts, assignment, self._attempt, settings=settings.jobs, limits=settings.ir, cache=cache
        )
        self._state = AttemptState(parts, assignment, self._finalizer, supervisor)
        self._storage = parts.storage
        self._attempts = parts.storage.attempts
        self._settings = settings.jobs
        self._report_timeout = parts.timings.report
        self._job, self._lease = assignment.job, assignment.lease
        self._alarms: list[Alarm] = []
        self._following = False
        self._measuring = False
        self._time = CommandTime(parts.storage, assignment, parts.timings.vm_first)
        self._builds_time_is_up = False
        self._exit_code: int | None = None
        self._failure: JobFailure | None = None
        self._timeout = timeout_on_record(assignment.job)
        self._result: AttemptResult | None = None
        self._vm_gone = False

    @property
    def doing(self) -> str:
        """The job, its state, and the work under way."""
        return f"job {self._job.uuid} is {self._state.now}; {super().doing}"

    def begin(self) -> None:
        """Begin the attempt, or continue it from its recorded state."""
        set_log_context(build=self._assignment.build.external_id, job=self._job.uuid)
        exit_code = self._finalizer.recorded_exit()
        if exit_code is not None:
            self._finalize(exit_code)
        elif self._state.now.ending and self._lease.started_at is None:
            self._release()
        else:
            self.work(JobTask.ACQUIRE, self._acquire)

    def teardown(self) -> None:
        """Close the connection and the log; the VM and its command run on."""
        for alarm in self._alarms:
            alarm.cancel()
        self._attempt.abandon()

    def on_error(self, message: object, error: Exception) -> None:
        """Fail the job for an internal error; if only the record of its end failed, retry that."""
        if self._result is None:
            self._attempt.abandon()
            self._result = result_of_failure(failure_of(error), self._job, lost_before=0, retries=0)
        self._alarm(_RECORD_RETRY_SECONDS, RecordAgain(self._result))

    def handle(self, message: JobMessage) -> None:
        """Start the next phase."""
        match message:
            case JobEvent.BUILD_TIMEOUT if self._state.now is JobState.RUNNING and not self._time.known:
                self._builds_time_is_up = True
            case JobEvent():
                self._end_command(message)
            case CommandTimedOut() | KillOverdue() | MeasureDisk():
                if self._following:
                    self._time_is_up(message)
            case Acquired() | Prepared() | Exited() | DiskUse() | Finalized():
                if not self._state.over:
                    self._phase_done(message)
            case Destroyed():
                self._vm_is_gone()
            case RecordAgain(result):
                self._conclude(result)
            case _:
                assert_never(message)

    def _time_is_up(self, alarm: CommandTimedOut | KillOverdue | MeasureDisk) -> None:
        match alarm:
            case CommandTimedOut():
                self._end_command(JobEvent.STEP_TIMEOUT)
            case KillOverdue():
                self._abandon_vm(f"it has not ended {self._report_timeout:g} s after its grace")
            case MeasureDisk():
                if not self._measuring:
                    self._measuring = True
                    self._time.confirm_running()
                    self.work(JobTask.MEASURE, self._attempt.measure)
            case _:
                assert_never(alarm)

    def _phase_done(self, done: PhaseDone) -> None:
        match done:
            case Acquired(member):
                self._acquired(member)
            case Prepared():
                self._started(done)
            case Exited():
                self._exited(done)
            case DiskUse():
                self._measured(done)
            case Finalized(result):
                self._conclude(result)
            case _:
                assert_never(done)

    def on_task_error(self, task: JobTask, error: Exception) -> None:
        """Fail or retry the job, unless the failed phase does not matter to it."""
        if self._state.over and task is not JobTask.RELEASE:
            return
        match task:
            case JobTask.MEASURE:
                self._measuring = False
                self._alarm(_MEASURE_SECONDS, MeasureDisk())
            case JobTask.KILL:
                if self._following:
                    self._abandon_vm(error)
            case JobTask.RELEASE:
                self.log.warning("job %s: its VM cannot be destroyed, the reaper will: %s", self._job.uuid, error)
                self._vm_is_gone()
            case JobTask.ACQUIRE | JobTask.PREPARE | JobTask.FOLLOW | JobTask.FINALIZE:
                self._phase_failed(error)
            case _:
                assert_never(task)

    def _acquire(self) -> Acquired:
        self._attempt.acquire()
        return Acquired(self._attempt.member)

    def _destroy(self) -> Destroyed:
        self._attempt.release()
        return Destroyed()

    def _acquired(self, member: str | None) -> None:
        if not self._state.now.ending:
            self._state.connected(member)
            self.work(JobTask.PREPARE, self._attempt.prepare)
        elif self._lease.started_at is not None:
            self._follow()
            self._kill()
        else:
            self._release()

    def _started(self, prepared: Prepared) -> None:
        """Begin to follow the command.

        A command that ended during downtime counts as ended then, even if its build's time is up by now.
        """
        if self._state.now.ending:
            self._release()
            return
        new = self._state.now is JobState.ASSIGNED and prepared.runs
        if self._state.now is JobState.ASSIGNED and not self._state.start(prepared.digests):
            self._leave_job()
            return
        left = self._time.started(prepared) if new else self._time.found(prepared)
        self._follow()
        if left is not None:
            self._alarm(left, CommandTimedOut())
            self._alarm(_MEASURE_SECONDS if new else self._lease.id % _SPREAD_SECONDS, MeasureDisk())
            if self._builds_time_is_up:
                self._end_command(JobEvent.BUILD_TIMEOUT)

    def _follow(self) -> None:
        self._following = True
        self.work(JobTask.FOLLOW, self._attempt.follow)

    def _end_command(self, event: JobEvent) -> None:
        """Begin to end the job for a cancel or a time-out, in any phase."""
        target = self._state.ending(event)
        if target is None or not self._begin_to_end(target, self._time.failure(event)):
            return
        if self._following:
            self._kill()
        elif self._result is None:
            self._attempt.abandon()

    def _begin_to_end(self, target: JobState, timeout: JobFailure | None) -> bool:
        """Record that the command is being ended, and why; False if the job was changed from outside."""
        if not self._state.begin_to_end(target, timeout):
            self._leave_job()
            return False
        self._timeout = timeout
        return True

    def _kill(self) -> None:
        """Ask the VM to end the command. A VM that does not confirm the end in time is destroyed."""
        self.work(JobTask.KILL, self._attempt.kill)
        self._alarm(self._settings.kill_grace + self._report_timeout, KillOverdue())

    def _abandon_vm(self, why: object) -> None:
        self.log.warning("job %s: its command cannot be ended, so its VM is destroyed: %s", self._job.uuid, why)
        self._attempt.abandon()

    def _leave_job(self) -> None:
        """Only destroy the VM of a job that was ended from outside."""
        self._attempt.abandon()
        self._release()

    def _measured(self, use: DiskUse) -> None:
        self._measuring = False
        min_free = self._settings.min_free_bytes
        failure = disk_failure(use, self._lease.shape)
        if failure is not None and self._following and self._failure is None:
            self._failure = failure
            self._kill()
        else:
            self._alarm(seconds_to_full(use, self._lease.shape, min_free=min_free), MeasureDisk())

    def _exited(self, exited: Exited) -> None:
        """Record the command's end, and its time-out if its VM has ended it for that."""
        self._following = False
        told = not (exited.unkept or exited.failed_service)
        with self._storage.transaction():  # one for both, so that the disk syncs once
            timeout = self._time.end(exited)
            late = timeout is not None and self._state.now is JobState.RUNNING
            if told and not late:
                self._attempts.exited(self._job.id, exited.exit_code)
        if late and not self._begin_to_end(JobState.TIMING_OUT, timeout):
            return
        if exited.unkept:  # not recorded: a successor asks the VM, which tells this with the end
            why = why_not_kept(os.strerror(exited.unkept), self._settings.log_wait_seconds)
            self._failure = self._failure or JobFailure(JobErrorCode.LOG_NOT_KEPT, why)
        elif exited.failed_service:  # as above: a successor asks the VM
            self._failure = self._failure or JobFailure(JobErrorCode.SERVICE_FAILED, exited.failed_service)
        elif late:
            self._attempts.exited(self._job.id, exited.exit_code)
        self._finalize(exited.exit_code)

    def _finalize(self, exit_code: int) -> None:
        """Conclude a canceled job; else close the attempt, which judges the exit code and keeps results."""
        self._exit_code = exit_code
        if self._state.now is JobState.CANCELING:
            self._conclude(result_of_exit(exit_code, self._job, None))
        else:
            failure = self._failure or self._timeout
            self.work(JobTask.FINALIZE, lambda: Finalized(self._finalizer.finalize(exit_code, failure)))

    def _phase_failed(self, error: Exception) -> None:
        """Fail the job after an error in a phase, or retry it if the service is at fault."""
        self._following = False
        self._result = None
        if self._state.now.ending:
            self._release()
            return
        failure = self._failure or failure_of(error)
        lost = self._attempts.lost(self._job.id)
        self._conclude(result_of_failure(failure, self._job, lost_before=lost, retries=self._settings.service_retries))

    def _conclude(self, result: AttemptResult) -> None:
        """Record a result: of a job that ended by itself at once, of an interrupted one after its VM is gone.

        A timed-out job whose VM is held is recorded once its command is dead.
        """
        self._result = result
        held = self._state.now is JobState.TIMING_OUT and result.held_seconds
        if self._state.now.ending and not self._vm_gone and not held:
            self._release()
        else:
            self._record(result)

    def _record(self, result: AttemptResult) -> None:
        """Record the result; then leave the VM that is held, or destroy it."""
        if self._state.now.ending:
            result = result.interrupted(self._timeout)
        if not self._state.record(result):
            self._leave_job()
        elif result.held_in(self._state.now):
            self.stop()
        elif self._vm_gone:
            self._release_lease()
        else:
            self._release()

    def _release(self) -> None:
        self.work(JobTask.RELEASE, self._destroy)

    def _vm_is_gone(self) -> None:
        self._vm_gone = True
        if self._state.now.ending:
            self._record(self._result or result_of_exit(self._exit_code, self._job, self._timeout))
        else:
            self._release_lease()

    def _release_lease(self) -> None:
        """Return the lease and stop."""
        self._finalizer.release_lease()
        self.stop()

    def _alarm(self, seconds: float, message: JobMessage) -> None:
        self._alarms.append(self._timer.tell_after(seconds, self.address, message))
