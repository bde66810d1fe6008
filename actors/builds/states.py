"""The state tables of jobs and builds by event (engine.md, "States"). Pure."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from storage import BuildState, JobState, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import Job


class JobEvent(Enum):
    """An event of a job."""

    READY = auto()
    """Every prerequisite is satisfied."""
    BLOCKED = auto()
    """A prerequisite failed, timed out, or was skipped for that reason."""
    UNMET = auto()
    """It waits for a failure, and nothing failed; or it starts from the disk of such a job."""
    REFUSED = auto()
    """Its gate was answered by no, by nobody in time, or is that of an unknown environment."""
    CANCEL = auto()
    """The build was canceled, or it fails fast."""
    CACHE_HIT = auto()
    """The cache has the result of this job."""
    GRANTED = auto()
    """The lease pool granted a VM."""
    STARTED = auto()
    """The command runs in the VM."""
    PASSED = auto()
    """The command ended with exit code 0."""
    FAILED = auto()
    """The command ended with another exit code, or the service could not run it."""
    QUEUE_TIMEOUT = auto()
    """The job waited too long for a VM."""
    IMAGE_NOT_FOUND = auto()
    """The job's image is missing and cannot be pulled."""
    STEP_TIMEOUT = auto()
    """The step's time is up."""
    BUILD_TIMEOUT = auto()
    """The build's time is up."""
    DEAD = auto()
    """The command is confirmed dead and will not write again."""
    RETRY = auto()
    """Another attempt is due: the VM was lost, or the retry policy covers the exit code."""
    RERUN = auto()
    """Its finished build is retried, and this job is to run again: the one event after a final state."""


_S, _E = JobState, JobEvent

_TABLE: dict[tuple[JobState, JobEvent], JobState] = {
    (_S.PENDING, _E.READY): _S.SCHEDULED,
    (_S.PENDING, _E.BLOCKED): _S.SKIPPED,
    (_S.PENDING, _E.UNMET): _S.SKIPPED,
    (_S.PENDING, _E.REFUSED): _S.FAILED,
    (_S.PENDING, _E.CANCEL): _S.CANCELED,
    (_S.PENDING, _E.BUILD_TIMEOUT): _S.TIMED_OUT,
    (_S.SCHEDULED, _E.CANCEL): _S.CANCELED,
    (_S.SCHEDULED, _E.BUILD_TIMEOUT): _S.TIMED_OUT,
    (_S.SCHEDULED, _E.QUEUE_TIMEOUT): _S.TIMED_OUT,
    (_S.SCHEDULED, _E.IMAGE_NOT_FOUND): _S.FAILED,
    (_S.SCHEDULED, _E.CACHE_HIT): _S.PASSED,
    (_S.SCHEDULED, _E.GRANTED): _S.ASSIGNED,
    (_S.ASSIGNED, _E.STARTED): _S.RUNNING,
    (_S.ASSIGNED, _E.CANCEL): _S.CANCELING,
    (_S.ASSIGNED, _E.BUILD_TIMEOUT): _S.TIMING_OUT,
    (_S.ASSIGNED, _E.FAILED): _S.FAILED,
    (_S.ASSIGNED, _E.RETRY): _S.SCHEDULED,
    (_S.RUNNING, _E.PASSED): _S.PASSED,
    (_S.RUNNING, _E.FAILED): _S.FAILED,
    (_S.RUNNING, _E.STEP_TIMEOUT): _S.TIMING_OUT,
    (_S.RUNNING, _E.BUILD_TIMEOUT): _S.TIMING_OUT,
    (_S.RUNNING, _E.CANCEL): _S.CANCELING,
    (_S.RUNNING, _E.RETRY): _S.SCHEDULED,
    (_S.CANCELING, _E.DEAD): _S.CANCELED,
    (_S.TIMING_OUT, _E.DEAD): _S.TIMED_OUT,
    **{(state, _E.RERUN): _S.PENDING for state in JobState if state.terminal},
}


def next_state(state: JobState, event: JobEvent) -> JobState | None:
    """Return the next state, or None if the event does not apply in that state and is dropped."""
    return _TABLE.get((state, event))


@immutable
class Progress:
    """The part of a job that its dependents and its build need to know.

    One that its own condition has skipped counts as passed for its dependents.
    """

    state: JobState
    soft_failed: bool = False
    attempt: int = 0
    skipped_by_condition: bool = False

    @classmethod
    def of(cls, job: Job) -> Progress:
        """Return the progress of a job."""
        return cls(job.state, job.soft_failed, job.attempt, job.skipped_by_condition)

    @property
    def failed(self) -> bool:
        """True if the job failed or timed out, and not as a soft failure."""
        return self.state.failed and not self.soft_failed


def satisfies(prerequisite: Progress, *, continue_on_failure: bool) -> bool:
    """Tell whether this prerequisite lets its dependent run."""
    if continue_on_failure:
        return prerequisite.state.terminal
    return prerequisite.state is JobState.PASSED or prerequisite.soft_failed or prerequisite.skipped_by_condition


def blocks(prerequisite: Progress, *, continue_on_failure: bool) -> bool:
    """Tell whether this prerequisite keeps its dependent from ever running."""
    return prerequisite.state.terminal and not satisfies(prerequisite, continue_on_failure=continue_on_failure)


def roll_up(jobs: Iterable[Progress], *, cancel_requested: bool, end_requested: bool = False) -> BuildState:
    """Return the state of a build from its jobs' progress.

    ``end_requested`` is true if the service failed the build or its time is up; a requested cancel takes precedence.
    """
    jobs = tuple(jobs)
    over = all(job.state.terminal for job in jobs)
    failed = end_requested or any(job.failed for job in jobs)
    if cancel_requested:
        return BuildState.CANCELED if over else BuildState.CANCELING
    if over:
        return BuildState.FAILED if failed else BuildState.PASSED
    if failed:
        return BuildState.FAILING
    begun = any(job.attempt > 0 or not job.state.waiting for job in jobs)
    return BuildState.RUNNING if begun else BuildState.SCHEDULED
