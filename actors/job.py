"""The job actor: takes a job through one attempt, and owns every change of its state meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.about import be_about
from actors.attempt import Attempt, Prepared
from actors.closing import Closing
from actors.command_time import CommandTime
from actors.messages import JobChanged, MeasureDisk, Overdue, StepTimedOut, Stirred, TaskDone, TaskFailed
from actors.outcome import (
    DiskUse,
    Ending,
    Fault,
    disk_fault,
    ending_of_exit,
    ending_of_fault,
    fault_of,
    outcome_of,
    seconds_to_full,
    timeout_on_record,
)
from actors.runtime import Address, Runtime, post
from actors.states import STOPPING, JobEvent, Progress, next_state
from actors.supervision import Supervised
from actors.vms import Exited
from storage import JobState

if TYPE_CHECKING:
    from actors.assignment import Assignment
    from actors.timer import Alarm

__all__ = ["JobActor"]

_RECORD_AGAIN = 1.0
_MEASURE_AGAIN = 1.0
_LAST_WORDS = 10.0
"""Seconds after the grace in which a VM must report a killed command's end and the rest of its output."""


class JobActor(Supervised):
    """Drives one attempt: VM, source, command, log, snapshot, result, release.

    The blocking steps run one after the other on worker threads (`Attempt`); between them this actor decides, so that a
    cancel or a time-out works at every moment. A job that already has a VM is continued where it is.
    """

    def __init__(self, runtime: Runtime, parent: Address, assignment: Assignment) -> None:
        super().__init__(runtime.timer, parent)
        self._runtime = runtime
        self._settings = runtime.settings.jobs
        self._assignment = assignment
        self._job, self._lease = assignment.job, assignment.lease
        self._state = assignment.job.state
        self._attempt = Attempt(runtime, assignment, on_output=self._stir)
        self._closing = Closing(runtime, assignment, self._attempt)
        self._alarms: list[Alarm] = []
        self._following = False
        self._measuring = False
        self._time = CommandTime(runtime.storage, assignment)
        self._builds_time_is_up = False
        self._exit_code: int | None = None
        self._fault: Fault | None = None
        self._timeout = timeout_on_record(assignment.job)
        self._ending: Ending | None = None
        self._vm_gone = False

    @property
    def doing(self) -> str:
        """The job, its state, and the work under way."""
        return f"job {self._job.uuid} is {self._state}; {super().doing}"

    def begin(self) -> None:
        """Begin the attempt, or continue it from its recorded state."""
        be_about(build=self._assignment.build.external_id, job=self._job.uuid)
        exit_code = self._closing.recorded_exit()
        if exit_code is not None:
            self._settle(exit_code)
        elif self._state in STOPPING and self._lease.started_at is None:
            self._release()
        else:
            self.work("acquire", self._attempt.acquire)

    def teardown(self) -> None:
        """Close the connection and the log; the VM and its command run on."""
        for alarm in self._alarms:
            alarm.cancel()
        self._attempt.abandon()

    def on_error(self, message: object, error: Exception) -> None:
        """Fail the job for an internal error; if only the record of its end failed, retry that."""
        if self._ending is None:
            self._attempt.abandon()
            self._ending = ending_of_fault(fault_of(error), self._job, lost_before=0, retries=0)
        self._alarm(_RECORD_AGAIN, self._ending)

    def handle(self, message: object) -> None:
        """Take the next step."""
        match message:
            case TaskDone(task) | TaskFailed(task) if self._over and task != "release":
                return
            case TaskDone(task, result):
                self._task_done(task, result)
            case TaskFailed(task, error):
                self._task_failed(task, error)
            case JobEvent.BUILD_TIMEOUT if self._state is JobState.RUNNING and not self._time.known:
                self._builds_time_is_up = True
            case JobEvent():
                self._stop_command(message)
            case StepTimedOut() if self._following:
                self._stop_command(JobEvent.STEP_TIMEOUT)
            case Overdue() if self._following:
                self._lose_vm(f"it has not come to its end {_LAST_WORDS:g} s after its grace")
            case MeasureDisk() if self._following and not self._measuring:
                self._measuring = True
                self._time.goes_on()
                self.work("measure", self._attempt.measure)
            case Ending():
                self._conclude(message)

    def _task_done(self, task: str, result: object) -> None:
        match task, result:
            case "acquire", _:
                self._acquired()
            case "prepare", Prepared():
                self._started(result)
            case "follow", Exited():
                self._exited(result)
            case "measure", DiskUse():
                self._measured(result)
            case "close", Ending():
                self._conclude(result)
            case "release", _:
                self._released()

    def _task_failed(self, task: str, error: Exception) -> None:
        match task:
            case "measure":
                self._measuring = False
                self._alarm(_MEASURE_AGAIN, MeasureDisk())
            case "kill":
                if self._following:
                    self._lose_vm(error)
            case "release":
                self.log.warning("job %s: its VM cannot be destroyed, the reaper will: %s", self._job.uuid, error)
                self._released()
            case _:
                self._step_failed(error)

    def _acquired(self) -> None:
        if self._state not in STOPPING:
            self._runtime.storage.leases.active(self._lease.id)
            self._runtime.storage.attempts.leased(self._job.id)
            self.work("prepare", self._attempt.prepare)
        elif self._lease.started_at is not None:
            self._follow()
            self._kill()
        else:
            self._release()

    def _started(self, prepared: Prepared) -> None:
        """Record that the command runs, which is when its time and its billing begin.

        A command that ended during downtime counts as ended then, even if its build's time is up by now.
        """
        if self._state in STOPPING:
            self._release()
            return
        if self._state is JobState.ASSIGNED:
            if not self._runtime.storage.leases.start(self._lease.id, self._job.id):
                self._give_way()
                return
            self._change(JobState.RUNNING)
        left = self._time.begin(prepared)
        self._follow()
        if left is not None:
            self._alarm(left, StepTimedOut())
            self._alarm(_MEASURE_AGAIN, MeasureDisk())
            if self._builds_time_is_up:
                self._stop_command(JobEvent.BUILD_TIMEOUT)

    def _follow(self) -> None:
        self._following = True
        self.work("follow", self._attempt.follow)

    def _stop_command(self, event: JobEvent) -> None:
        """Begin to end the job for a cancel or a time-out, at any step."""
        target = next_state(self._state, event)
        if target not in STOPPING:  # a job that is scheduled again is stopped by its build
            self._runtime.drops.note(self._job.uuid, self._state, event)
            return
        if not self._begin_to_stop(target, self._time.fault(event)):
            return
        if self._following:
            self._kill()
        elif self._ending is None:
            self._attempt.abandon()

    def _begin_to_stop(self, target: JobState, timeout: Fault | None) -> bool:
        """Record that the command is being ended, and why; False if the job was changed from outside."""
        if not self._runtime.storage.jobs.move(self._job.id, self._state, target, outcome_of(timeout)):
            self._give_way()
            return False
        self._timeout = timeout
        self._change(target)
        return True

    def _kill(self) -> None:
        """Ask the VM to end the command. A VM that does not confirm the end in time is destroyed."""
        self.work("kill", self._attempt.kill)
        self._alarm(self._settings.kill_grace + _LAST_WORDS, Overdue())

    def _lose_vm(self, why: object) -> None:
        self.log.warning("job %s: its command cannot be ended, so its VM goes: %s", self._job.uuid, why)
        self._attempt.abandon()

    @property
    def _over(self) -> bool:
        """True once the attempt's end is recorded, so that only the VM is left to destroy."""
        return self._state.terminal or self._state is JobState.SCHEDULED

    def _give_way(self) -> None:
        """Accept a state set from outside (`ci-daemon build force-finish`), and only destroy the VM."""
        job = self._runtime.storage.jobs.get(self._job.id)
        self._state = job.state if job and job.attempt == self._job.attempt else JobState.SCHEDULED
        self.log.info("job %s was made %s meanwhile, so its VM goes", self._job.uuid, self._state)
        self._stir()
        self._attempt.abandon()
        self._release()

    def _measured(self, use: DiskUse) -> None:
        self._measuring = False
        min_free = self._settings.min_free_bytes
        fault = disk_fault(use, self._lease.shape)
        if fault is not None and self._following and self._fault is None:
            self._fault = fault
            self._kill()
        else:
            self._alarm(seconds_to_full(use, self._lease.shape, min_free=min_free), MeasureDisk())

    def _exited(self, exited: Exited) -> None:
        """Record the command's end, and its time-out if its VM has ended it for that."""
        self._following = False
        timeout = self._time.end(exited)
        late = timeout is not None and self._state is JobState.RUNNING
        if late and not self._begin_to_stop(JobState.TIMING_OUT, timeout):
            return
        self._runtime.storage.attempts.exited(self._job.id, exited.exit_code)
        self._settle(exited.exit_code)

    def _settle(self, exit_code: int) -> None:
        """Conclude a canceled job; else close the attempt, which judges the exit code and keeps results."""
        self._exit_code = exit_code
        if self._state is JobState.CANCELING:
            self._conclude(ending_of_exit(exit_code, self._job, None))
        else:
            fault = self._fault or self._timeout
            self.work("close", lambda: self._closing.close(exit_code, fault))

    def _step_failed(self, error: Exception) -> None:
        """Fail the job after an error in a step, or retry it if the service is at fault."""
        self._following = False
        self._ending = None
        if self._state in STOPPING:
            self._release()
            return
        fault = self._fault or fault_of(error)
        lost = self._runtime.storage.attempts.lost(self._job.id)
        self._conclude(ending_of_fault(fault, self._job, lost_before=lost, retries=self._settings.service_retries))

    def _conclude(self, ending: Ending) -> None:
        """Record an ending at once, so that dependents start; of a stopped job, once its VM is gone.

        A timed-out job whose VM is held is recorded once its command is dead.
        """
        self._ending = ending
        held = self._state is JobState.TIMING_OUT and ending.held_seconds
        if self._state in STOPPING and not self._vm_gone and not held:
            self._release()
        else:
            self._record(ending)

    def _record(self, ending: Ending) -> None:
        """Record the job's new state, its lease's price and its debit in one transaction, then announce it."""
        if self._state in STOPPING:
            ending = ending.stopped(self._timeout)
        target = next_state(self._state, ending.event)
        if target is None:
            self._runtime.drops.note(self._job.uuid, self._state, ending.event)
        elif self._closing.record(self._state, target, ending):
            self._runtime.observations.attempted(target, ending)
            self._change(target, soft_failed=ending.soft_failed)
        else:
            self._give_way()
            return
        if target is not None and ending.held_in(target):
            self.stop()
        elif self._vm_gone:
            self._let_go()
        else:
            self._release()

    def _release(self) -> None:
        self.work("release", self._attempt.release)

    def _released(self) -> None:
        self._vm_gone = True
        if self._state in STOPPING:
            self._record(self._ending or ending_of_exit(self._exit_code, self._job, self._timeout))
        else:
            self._let_go()

    def _let_go(self) -> None:
        """Return the lease and stop."""
        self._closing.let_go()
        self.stop()

    def _change(self, state: JobState, *, soft_failed: bool = False) -> None:
        """Note a state that is in the storage, and announce it."""
        self._state = state
        self.log.info("attempt %d of %r is %s", self._job.attempt, self._job.step_key, state)
        self._stir()
        post(self._parent, JobChanged(self._job.id, Progress(state, soft_failed, self._job.attempt)))

    def _stir(self) -> None:
        post(self._runtime.crew.hub, Stirred(self._job.uuid))

    def _alarm(self, seconds: float, message: object) -> None:
        self._alarms.append(self._runtime.timer.tell_after(seconds, self.actor_ref, message))
