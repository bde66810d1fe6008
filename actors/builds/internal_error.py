"""Failing builds and jobs whose actors keep dying: they end, unbilled, and block nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from actors.builds.states import JobEvent, next_state
from storage import BuildFinished, BuildState, JobErrorCode, JobState, Outcome

if TYPE_CHECKING:
    from storage import Storage


def fail_build(storage: Storage, build_id: int) -> None:
    """Fail a build whose supervisors keep dying; end its jobs, unbilled. The reaper takes their VMs."""
    why = "the service failed repeatedly to run this build; the service's log has the details"
    with suppress(BuildFinished):
        storage.force_finish.end(build_id, BuildState.FAILED, actor="ci-daemon", note=why, billable=False)


def fail_job(storage: Storage, job_id: int, state: JobState) -> None:
    """End a job whose actors keep dying; the attempt is not billed. The reaper takes its VM."""
    target = next_state(state, JobEvent.DEAD if state.ending else JobEvent.FAILED)
    if target is None:
        return
    why = "the service failed repeatedly to run this job; the service's log has the details"
    lease = storage.leases.of_job(job_id)
    outcome = (
        Outcome(error_code=JobErrorCode.INTERNAL_ERROR, error_message=why) if target is JobState.FAILED else Outcome()
    )
    storage.jobs.finish(job_id, state, target, outcome, lease_id=lease.id if lease else None, billable=False)
