"""The end of a whole build at once, with its jobs and their leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from storage.database.statements import written
from storage.errors import BuildFinished
from storage.records.builds import BuildState
from storage.records.jobs import BuildErrorCode, JobErrorCode, JobState, Outcome
from storage.records.leases import LeaseState

if TYPE_CHECKING:
    from storage.builds.builds import Builds
    from storage.builds.jobs import Jobs
    from storage.database.connection import Database
    from storage.leases.leases import Leases
    from storage.records.leases import Lease

_JOB_STATES = {BuildState.FAILED: JobState.FAILED, BuildState.CANCELED: JobState.CANCELED}


class ForceFinish:
    """Ends whole builds in one transaction that writes all that a normal end writes. Safe in any thread."""

    def __init__(self, database: Database, builds: Builds, jobs: Jobs, leases: Leases) -> None:
        self._database = database
        self._builds = builds
        self._jobs = jobs
        self._leases = leases

    def end(
        self,
        build_id: int,
        state: BuildState,
        *,
        actor: str,
        note: str,
        billable: bool = True,
    ) -> list[Lease]:
        """End a build as ``failed`` or ``canceled``, and each of its unfinished jobs, with their debits.

        If ``billable``, running jobs are debited and their VMs noted as killed by ``actor``; the caller passes False if
        the service is at fault. ``note`` becomes the build's error message.

        Returns the live leases, whose VMs the caller must destroy. Raises BuildFinished, and ValueError for another
        state.
        """
        if state not in _JOB_STATES:
            raise ValueError(f"a build is not forced to be {state}")
        code = BuildErrorCode.INTERNAL_ERROR if state is BuildState.FAILED else None
        failure = Outcome(error_code=JobErrorCode.INTERNAL_ERROR, error_message=note)
        with self._database.write():
            build = written(self._builds.get(build_id))
            if build.state.terminal:
                raise BuildFinished(f"build {build.name} is {build.state} already: nothing to do")
            leases: list[Lease] = []
            for job in self._jobs.of_build(build_id):
                if job.state.terminal:
                    continue
                lease = self._leases.of_job(job.id)
                target = _end_of(job.state, _JOB_STATES[state])
                self._jobs.finish(
                    job.id,
                    job.state,
                    target,
                    failure if target is JobState.FAILED else Outcome(),
                    lease_id=lease.id if lease and job.state is not JobState.SCHEDULED else None,
                    billable=billable,
                )
                if lease is not None and lease.state is not LeaseState.ENDED:
                    leases.append(lease)
                    if billable:
                        self._leases.kill(lease.id, actor)
            self._builds.move(build_id, build.state, state, error_code=code, error_message=note)
        return leases


def _end_of(state: JobState, forced: JobState) -> JobState:
    """Return a job's final state: ``forced``, unless the job has no VM, is already ending or has ended."""
    match state:
        case JobState.PENDING | JobState.SCHEDULED | JobState.CANCELING:
            return JobState.CANCELED
        case JobState.TIMING_OUT:
            return JobState.TIMED_OUT
        case JobState.ASSIGNED | JobState.RUNNING:
            return forced
        case JobState.PASSED | JobState.FAILED | JobState.SKIPPED | JobState.CANCELED | JobState.TIMED_OUT:
            return state
        case _:
            assert_never(state)
