from __future__ import annotations

from storage import JobState, Outcome
from tests.storage.world import World


def failed(world: World, error_code: str | None, message: str | None = None) -> int:
    """Have a build's only job fail; return the build's number."""
    build = world.build()
    outcome = Outcome(error_code=error_code, error_message=message)
    assert world.storage.jobs.move(world.job(build).id, JobState.SCHEDULED, JobState.FAILED, outcome)
    return build.number


def test_jobs_that_failed_by_the_services_fault_are_told_newest_first(world: World):
    assert world.storage.faults.latest(5) == []
    lost = failed(world, "vm_lost", "it is gone")
    failed(world, None)
    failed(world, "step_timeout")
    internal = failed(world, "internal_error")
    faults = world.storage.faults.latest(5)
    assert [(each.number, each.error_code) for each in faults] == [(internal, "internal_error"), (lost, "vm_lost")]
    assert (faults[1].organization, faults[1].pipeline, faults[1].step_key) == ("acme", "web", "step")
    assert (faults[1].error_message, faults[1].finished_at) == ("it is gone", world.clock.now())
    assert len(world.storage.faults.latest(1)) == 1
