"""The actor of one running job: takes it through one attempt and owns every change of its state meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.attempt import Assignment, Attempt
from actors.closing import Closing
from actors.messages import JobChanged, MeasureDisk, Released, StepTimedOut, Stirred, TaskDone, TaskFailed
from actors.outcome import (
    DiskUse,
    Ending,
    Fault,
    disk_fault,
    ending_of_exit,
    ending_of_fault,
    fault_of,
    seconds_to_full,
)
from actors.runtime import Address, Runtime, post
from actors.states import JobEvent, Progress, next_state
from actors.supervision import Supervised
from actors.vms import Exited, VmError
from storage import JobState

if TYPE_CHECKING:
    from actors.timer import Alarm

__all__ = ["JobActor"]

_STOPPING = frozenset({JobState.CANCELING, JobState.TIMING_OUT})
_RECORD_AGAIN = 1.0
_MEASURE_AGAIN = 1.0
_SETTLE = 5.0
_LAST_WORDS = 30.0


class JobActor(Supervised):
    """Drives one attempt: VM, source, command, log, snapshot, result, release.

    The blocking steps run one after the other on worker threads (`Attempt`); between them this actor decides, so that a
    cancel or a time-out meets every moment of a job's life. A job that already has a VM is attached to where it stands.
    """

    def __init__(self, runtime: Runtime, parent: Address, assignment: Assignment) -> None:
        super().__init__(runtime.timer, parent)
        self._runtime = runtime
        self._assignment = assignment
        self._job, self._lease = assignment.job, assignment.lease
        self._state = assignment.job.state
        self._attempt = Attempt(runtime, assignment, on_output=self._stir)
        self._closing = Closing(runtime, assignment, self._attempt)
        self._alarms: list[Alarm] = []
        self._following = False
        self._measuring = False
        self._min_free = runtime.jobs.min_free_bytes
        self._exit_code: int | None = None
        self._fault: Fault | None = None
        self._timeout: Fault | None = None
        self._ending: Ending | None = None
        self._vm_gone = False

    def begin(self) -> None:
        """Begin the attempt, or go on with it from where the storage says that it is."""
        exit_code = self._recorded_exit()
        if exit_code is not None and self._state not in _STOPPING:
            self._exited(exit_code)
        elif self._state in _STOPPING and self._lease.started_at is None:
            self._release()
        else:
            self.work("acquire", self._attempt.acquire)

    def teardown(self) -> None:
        """Let go of the connection and the log; the VM and its command run on."""
        for alarm in self._alarms:
            alarm.cancel()
        self._attempt.abandon()

    def on_error(self, message: object, error: Exception) -> None:
        """Fail the job for an error of the service's own; where only recording its end failed, try that again."""
        if self._ending is None:
            self._attempt.abandon()
            self._ending = ending_of_fault(fault_of(error), self._job, lost_before=0, retries=0)
        self._alarm(_RECORD_AGAIN, self._ending)

    def handle(self, message: object) -> None:
        """Take the next step."""
        match message:
            case TaskDone(task, result):
                self._task_done(task, result)
            case TaskFailed(task, error):
                self._task_failed(task, error)
            case JobEvent():
                self._stop_command(message)
            case StepTimedOut() if self._following:
                self._stop_command(JobEvent.STEP_TIMEOUT)
            case MeasureDisk() if self._following and not self._measuring:
                self._measuring = True
                self.work("measure", self._attempt.measure)
            case Ending():
                self._record(message)

    def _task_done(self, task: str, result: object) -> None:
        match task, result:
            case "acquire", _:
                self._acquired()
            case "prepare", _:
                self._started()
            case "follow", Exited(exit_code=exit_code):
                self._exited(exit_code)
            case "measure", DiskUse():
                self._measured(result)
            case "close", Ending():
                self._conclude(result)
            case "kill", _:
                endless = VmError(f"it is dead and its output has not ended {_LAST_WORDS:g} s later")
                self._alarm(_LAST_WORDS, TaskFailed("kill", endless))
            case "release", _:
                self._released()

    def _task_failed(self, task: str, error: Exception) -> None:
        match task:
            case "measure":
                self._measuring = False
                self._alarm(_MEASURE_AGAIN, MeasureDisk())
            case "kill":
                if self._following:
                    self.log.warning("job %s: its command cannot be ended, so its VM goes: %s", self._job.uuid, error)
                    self._attempt.abandon()
            case "release":
                self.log.warning("job %s: its VM cannot be destroyed, the reaper will: %s", self._job.uuid, error)
                self._released()
            case _:
                self._step_failed(error)

    def _acquired(self) -> None:
        if self._state not in _STOPPING:
            self._runtime.storage.leases.active(self._lease.id)
            self.work("prepare", self._attempt.prepare)
        elif self._lease.started_at is not None:
            self._follow()
            self.work("kill", self._attempt.kill)
        else:
            self._release()

    def _started(self) -> None:
        """Record that the command runs, which is when its time and its bill begin."""
        if self._state in _STOPPING:
            self._release()
            return
        if self._state is JobState.ASSIGNED:
            self._runtime.storage.leases.start(self._lease.id, self._job.id)
            self._change(JobState.RUNNING)
        self._alarm(self._seconds_left(), StepTimedOut())
        self._alarm(_MEASURE_AGAIN, MeasureDisk())
        self._follow()

    def _seconds_left(self) -> float:
        """Return the rest of the step's time; a command found running may have ended already and has time to say so."""
        timeout = self._job.timeout_seconds or self._runtime.jobs.step_timeout
        if self._lease.started_at is None:
            return timeout
        return max(_SETTLE, timeout - (self._runtime.clock.now() - self._lease.started_at).total_seconds())

    def _follow(self) -> None:
        self._following = True
        self.work("follow", self._attempt.follow)

    def _stop_command(self, event: JobEvent) -> None:
        """Begin to end the job for a cancel or a time-out, whatever step it is at."""
        target = next_state(self._state, event)
        if target is None:
            return
        fault = self._timeout = self._time_fault(event) if target is JobState.TIMING_OUT else None
        code, why = (fault.code, fault.message) if fault else (None, None)
        if self._runtime.storage.jobs.move(self._job.id, self._state, target, error_code=code, error_message=why):
            self._change(target)
            if self._following:
                self.work("kill", self._attempt.kill)
            elif self._ending is None:
                self._attempt.abandon()

    def _time_fault(self, event: JobEvent) -> Fault:
        if event is JobEvent.STEP_TIMEOUT:
            seconds = self._job.timeout_seconds or self._runtime.jobs.step_timeout
            return Fault("step_timeout", f"the step's time-out of {seconds} s is over")
        seconds = self._assignment.build.timeout_seconds or 0
        return Fault("pipeline_timeout", f"the build's time-out of {seconds} s is over")

    def _measured(self, use: DiskUse) -> None:
        self._measuring = False
        fault = disk_fault(use, self._lease.shape, min_free=self._min_free)
        if fault is not None and self._following and self._fault is None:
            self._fault = fault
            self.work("kill", self._attempt.kill)
        else:
            self._alarm(seconds_to_full(use, self._lease.shape, min_free=self._min_free), MeasureDisk())

    def _exited(self, exit_code: int) -> None:
        """Take the exit code; unless somebody canceled, see what it means and keep what is wanted of the VM."""
        self._following = False
        self._exit_code = exit_code
        if self._state is JobState.CANCELING:
            self._conclude(ending_of_exit(exit_code, self._job, None))
        else:
            fault = self._fault or self._timeout
            self.work("close", lambda: self._closing.close(exit_code, fault))

    def _step_failed(self, error: Exception) -> None:
        """A step before the command's end broke: the job fails, or is tried again where that is the service's fault."""
        self._following = False
        self._ending = None
        if self._state in _STOPPING:
            self._release()
            return
        fault = self._fault or fault_of(error)
        lost = self._runtime.storage.attempts.lost(self._job.id)
        self._conclude(ending_of_fault(fault, self._job, lost_before=lost, retries=self._runtime.jobs.service_retries))

    def _recorded_exit(self) -> int | None:
        """Return the exit code that an earlier actor took, where it did not live to settle what follows."""
        attempts = self._runtime.storage.attempts.of_job(self._job.id)
        return attempts[-1].exit_code if attempts and attempts[-1].finished_at is None else None

    def _conclude(self, ending: Ending) -> None:
        """Record an ending at once, so that dependents start; but what is canceled is over when its VM is gone."""
        self._ending = ending
        if self._state in _STOPPING and not self._vm_gone:
            self._release()
        else:
            self._record(ending)

    def _record(self, ending: Ending) -> None:
        """Write the job's new state, its lease's price and its debit in one transaction, then tell."""
        target = next_state(self._state, JobEvent.DEAD if self._state in _STOPPING else ending.event)
        if target is None:
            self.stop()
            return
        jobs = self._runtime.storage.jobs
        soft_failed = ending.soft_failed and target is not JobState.CANCELED
        if target is JobState.SCHEDULED:
            recorded = jobs.retry(
                self._job.id,
                self._state,
                lease_id=self._lease.id,
                billable=ending.billable,
                error_code=ending.error_code,
                exit_code=ending.exit_code,
            )
        else:
            recorded = jobs.finish(
                self._job.id,
                self._state,
                target,
                exit_code=ending.exit_code,
                error_code=ending.error_code,
                error_message=ending.error_message,
                soft_failed=soft_failed,
                lease_id=self._lease.id,
                billable=ending.billable,
            )
        if recorded:
            self._change(target, soft_failed=soft_failed)
        if self._vm_gone:
            self._let_go()
        else:
            self._release()

    def _release(self) -> None:
        self.work("release", self._attempt.release)

    def _released(self) -> None:
        self._vm_gone = True
        if self._state in _STOPPING:
            self._record(self._ending or ending_of_exit(self._exit_code, self._job, self._timeout))
        else:
            self._let_go()

    def _let_go(self) -> None:
        """Give the lease back, which is the last thing that this actor does."""
        self._runtime.storage.leases.end(self._lease.id)
        post(self._runtime.crew.pool, Released(self._lease.id))
        self.stop()

    def _change(self, state: JobState, *, soft_failed: bool = False) -> None:
        """Take note of a state that is in the storage, and tell."""
        self._state = state
        self._stir()
        post(self._parent, JobChanged(self._job.id, Progress(state, soft_failed, self._job.attempt)))

    def _stir(self) -> None:
        post(self._runtime.crew.hub, Stirred(self._job.uuid))

    def _alarm(self, seconds: float, message: object) -> None:
        self._alarms.append(self._runtime.timer.tell_after(seconds, self.actor_ref, message))
