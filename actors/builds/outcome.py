"""The outcome of an attempt for its job. Pure (engine.md, "States"; pipeline-ir.md, "runner_args")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.environment import EnvironmentTooLarge
from actors.builds.attempt.log import LogNotKept
from actors.builds.attempt.shared_workspaces import WorkspaceMissing
from actors.builds.attempt.taken_files import FilesMissing
from actors.builds.states import JobEvent
from storage import (
    JobErrorCode,
    JobState,
    Outcome,
    RegistryLoginMissing,
    SecretNotAllowed,
    SecretNotFound,
    SecretUnavailable,
    immutable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Build, Job, Shape

_GB = 2**30
_NEARLY_FULL = 0.95
_FAST_WRITER = 2 * _GB
_MIN_MEASURE_SECONDS, _MAX_MEASURE_SECONDS = 1.0, 15.0


@immutable
class JobFailure:
    """The reason why an attempt failed, other than its exit code.

    A failure of the ``service`` is retried, and is not billed; its code is one ``of_service``.
    """

    code: JobErrorCode
    message: str
    service: bool = False


@immutable
class TimeLimit:
    """The time that a command has from its start, in seconds, and the failure if it takes longer."""

    seconds: float
    failure: JobFailure


@immutable
class DiskUse:
    """Bytes that a VM has written, and bytes free on the host; ``fills_host`` if the VM is why few are."""

    written: int
    free: int
    fills_host: bool = False


@immutable
class AttemptResult:
    """The result of an attempt that is to be recorded.

    A retry may begin after ``backoff_seconds``. The VM is held for ``held_seconds``, so that the user can look into it,
    unless the job is canceled.
    """

    event: JobEvent
    outcome: Outcome
    billable: bool = True
    backoff_seconds: int = 0
    held_seconds: int = 0

    def held_in(self, state: JobState) -> int:
        """Return for how many seconds the VM of a job that ends in this state is held."""
        return self.held_seconds if state.failed else 0

    @property
    def soft_failed(self) -> bool:
        """True if the job's policy forgives its failure."""
        return bool(self.outcome.soft_failed)

    @property
    def satisfies(self) -> bool:
        """True if dependents may run."""
        return self.event is JobEvent.PASSED or self.soft_failed

    def without_disk(self, why: str) -> AttemptResult:
        """Return the same result of a job whose disk, or the workspace that others take, could not be kept.

        Dependents cannot start from it, so the job fails if it would have satisfied them.
        """
        if not self.satisfies:
            return self
        outcome = outcome_of(JobFailure(JobErrorCode.SNAPSHOT_FAILED, why), self.outcome.exit_code)
        return replace(self, event=JobEvent.FAILED, outcome=outcome)

    def lacking(self, failure: JobFailure, job: Job) -> AttemptResult:
        """Return the same result of a job whose artifacts or outputs are not all kept.

        Dependents may count on them, so the job fails if it would have satisfied these (engine.md, "The end").
        """
        if not self.satisfies:
            return self
        outcome = outcome_of(failure, self.outcome.exit_code, soft_failed=soft_fails(job))
        return replace(self, event=JobEvent.FAILED, outcome=outcome)

    def interrupted(self, timeout: JobFailure | None) -> AttemptResult:
        """Return the same result of a job that was interrupted: by ``timeout`` if given, else by a cancel.

        A step's time-out may be a soft failure. A build's is not: a build that ran out of time does not pass.
        """
        soft = self.soft_failed and timeout is not None and timeout.code != JobErrorCode.PIPELINE_TIMEOUT
        outcome = outcome_of(timeout, self.outcome.exit_code, soft_failed=soft)
        return replace(self, event=JobEvent.DEAD, outcome=outcome)


def outcome_of(failure: JobFailure | None, exit_code: int | None = None, *, soft_failed: bool = False) -> Outcome:
    """Return the outcome to record, with the code and message of ``failure`` if there is one."""
    code, message = (failure.code, failure.message) if failure else (None, None)
    return Outcome(exit_code, code, message, soft_failed)


def build_timeout(build: Build) -> JobFailure:
    """Return the failure for a build's time-out."""
    return JobFailure(JobErrorCode.PIPELINE_TIMEOUT, f"the build's time-out of {build.timeout_seconds} s is over")


def time_limit(step_seconds: int, build: Build, build_ran: float) -> TimeLimit:
    """Return the limit of a command that starts now: its step's time, or what is left of its build's.

    ``build_ran`` is for how many seconds the build has run; its time begins with its first command.
    """
    if build.timeout_seconds is not None:
        left = build.timeout_seconds - build_ran
        if left < step_seconds:
            return TimeLimit(left, build_timeout(build))
    return TimeLimit(
        step_seconds, JobFailure(JobErrorCode.STEP_TIMEOUT, f"the step's time-out of {step_seconds} s is over")
    )


def timed_out_with_build(job: Job) -> bool:
    """Tell whether a job was ended because its build's time was up."""
    return job.error_code == JobErrorCode.PIPELINE_TIMEOUT


def timeout_on_record(job: Job) -> JobFailure | None:
    """Return the recorded time-out for which a job is being ended, or None."""
    if job.state is not JobState.TIMING_OUT:
        return None
    return JobFailure(JobErrorCode(job.error_code or JobErrorCode.INTERNAL_ERROR), job.error_message or "")


_SECRET_CODES = {
    SecretNotFound: JobErrorCode.SECRET_NOT_FOUND,
    RegistryLoginMissing: JobErrorCode.SECRET_NOT_FOUND,
    SecretNotAllowed: JobErrorCode.SECRET_NOT_ALLOWED,
    SecretUnavailable: JobErrorCode.SECRET_UNAVAILABLE,
}


def failure_of(error: Exception) -> JobFailure:
    """Return the failure that an error of a phase means for its job (engine.md, "Error codes")."""
    match error:
        case vms.ImageNotFound():
            return JobFailure(JobErrorCode.IMAGE_NOT_FOUND, str(error))
        case vms.SnapshotNotFound() | WorkspaceMissing() | vms.WorkspaceNotShared():
            return JobFailure(JobErrorCode.SNAPSHOT_FAILED, str(error))
        case vms.SourceError():
            return JobFailure(JobErrorCode.SOURCE_FETCH_FAILED, str(error))
        case FilesMissing() | vms.FilesNotLaid():
            return JobFailure(JobErrorCode.FILES_MISSING, str(error))
        case SecretNotFound() | RegistryLoginMissing() | SecretNotAllowed() | SecretUnavailable():
            return JobFailure(_SECRET_CODES[type(error)], str(error))
        case EnvironmentTooLarge():
            return JobFailure(JobErrorCode.ENV_TOO_LARGE, str(error))
        case vms.ServiceFailed():
            return JobFailure(JobErrorCode.SERVICE_FAILED, str(error))
        case LogNotKept():
            return JobFailure(JobErrorCode.LOG_NOT_KEPT, str(error))
        case vms.VmError():
            return _failure_of_vm(error)
        case _:
            return JobFailure(JobErrorCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}")


def _failure_of_vm(error: vms.VmError) -> JobFailure:
    match error:
        case vms.CommandLost():
            return JobFailure(JobErrorCode.VM_LOST, str(error))
        case vms.VmLost() | vms.ConnectionLost():
            return JobFailure(JobErrorCode.VM_LOST, str(error), service=True)
        case _:
            return JobFailure(JobErrorCode.LEASE_FAILED, str(error), service=True)


def disk_failure(use: DiskUse, shape: Shape) -> JobFailure | None:
    """Return the failure of a VM that has filled its disk, or that fills the host's; else None."""
    if use.written >= shape.disk_gb * _GB * _NEARLY_FULL:
        return JobFailure(
            JobErrorCode.DISK_FULL, f"the job filled its disk of {shape.disk_gb} GB; ask for more with disk_gb"
        )
    if use.fills_host:
        why = f"the host's disk has only {use.free / _GB:.1f} GB left, and this job takes most of what is missing"
        return JobFailure(JobErrorCode.DISK_FULL, why)
    return None


def may_have_filled(last: DiskUse | None, free: int, shape: Shape) -> bool:
    """Tell, from the host's ``free`` bytes, whether a VM may have filled its disk since ``last``.

    This costs one system call, while a measurement reads the names of all files that the VM has written. Space that
    others free meanwhile hides as much.
    """
    return last is None or last.written + last.free - free >= shape.disk_gb * _GB * _NEARLY_FULL


def seconds_to_full(use: DiskUse, shape: Shape, *, min_free: int) -> float:
    """Return the seconds to the next measurement: before a fast writer fills the disk, but not too often."""
    room = min(shape.disk_gb * _GB - use.written, use.free - min_free)
    return min(max(room / _FAST_WRITER, _MIN_MEASURE_SECONDS), _MAX_MEASURE_SECONDS)


def result_of_exit(
    exit_code: int | None, job: Job, failure: JobFailure | None, *, lost_before: int = 0
) -> AttemptResult:
    """Return the result of an attempt whose command ended by itself or was killed for ``failure``.

    ``lost_before`` counts the earlier attempts that the service lost; they do not use up the job's own retries.
    """
    if exit_code == 0 and failure is None:
        return AttemptResult(JobEvent.PASSED, Outcome(exit_code))
    if (
        failure is None
        and exit_code is not None
        and _retries(exit_code, job, job.attempt - job.attempts_before - 1 - lost_before)
    ):
        return AttemptResult(JobEvent.RETRY, Outcome(exit_code), backoff_seconds=_backoff(job.retry_policy))
    return AttemptResult(
        JobEvent.FAILED, outcome_of(failure, exit_code, soft_failed=_covers(job.soft_fail_policy, exit_code))
    )


def result_of_failure(failure: JobFailure, job: Job, *, lost_before: int, retries: int) -> AttemptResult:
    """Return the result of an attempt that failed before its command ended."""
    again = failure.service and lost_before < retries
    return AttemptResult(
        JobEvent.RETRY if again else JobEvent.FAILED,
        outcome_of(failure, soft_failed=not again and soft_fails(job)),
        billable=not failure.service,
    )


def soft_fails(job: Job) -> bool:
    """Tell whether a failure without an exit code is a soft failure of the job."""
    return _covers(job.soft_fail_policy, None)


def _retries(exit_code: int, job: Job, retried: int) -> bool:
    """Tell whether the job's retry policy asks for another attempt after ``retried`` retries."""
    policy = job.retry_policy
    limit = policy.get("limit") if policy is not None else 0
    return _covers(policy, exit_code) and isinstance(limit, int) and retried < limit


def _backoff(policy: Mapping[str, object] | None) -> int:
    seconds = policy.get("backoff_seconds") if policy is not None else None
    return seconds if isinstance(seconds, int) else 0


def _covers(policy: Mapping[str, object] | None, exit_code: int | None) -> bool:
    """Tell whether a policy covers this exit code; a policy that lists none covers every failure."""
    if policy is None:
        return False
    codes = policy.get("exit_codes")
    return codes is None or (isinstance(codes, list | tuple) and exit_code in codes)
