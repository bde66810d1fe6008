"""Giving up builds and jobs whose actors keep dying: they end, unbilled, and block nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from actors.states import STOPPING, JobEvent, next_state
from storage import BuildFinished, BuildState, JobState, Outcome

if TYPE_CHECKING:
    from actors.runtime import Runtime

__all__ = ["give_up_build", "give_up_job"]


def give_up_build(runtime: Runtime, build_id: int) -> None:
    """Fail a build whose supervisors keep dying; end its jobs, unbilled. The reaper takes their VMs."""
    why = "the service failed again and again to look after this build; its log has the details"
    with suppress(BuildFinished):
        runtime.storage.settlement.force_finish(
            build_id, BuildState.FAILED, actor="ci-daemon", note=why, billable=False
        )


def give_up_job(runtime: Runtime, job_id: int, state: JobState) -> None:
    """End a job whose actors keep dying; the attempt is not billed. The reaper takes its VM."""
    target = next_state(state, JobEvent.DEAD if state in STOPPING else JobEvent.FAILED)
    if target is None:
        return
    why = "the service failed again and again to look after this job; its log has the details"
    lease = runtime.storage.leases.of_job(job_id)
    outcome = Outcome(error_code="internal_error", error_message=why) if target is JobState.FAILED else Outcome()
    runtime.storage.jobs.finish(job_id, state, target, outcome, lease_id=lease.id if lease else None, billable=False)
