from __future__ import annotations

from storage import Balances, JobState, LedgerSource, Outcome
from tests.storage.world import World


def failed(world: World, error_code: str | None, message: str | None = None) -> int:
    """Have a build's only job fail a second after the last; return the build's number."""
    build = world.build()
    job = world.job(build)
    world.clock.turn(seconds=1)
    outcome = Outcome(error_code=error_code, error_message=message)
    assert world.storage.jobs.move(job.id, JobState.SCHEDULED, JobState.FAILED, outcome)
    return build.number


def test_jobs_that_failed_by_the_services_fault_are_told_newest_first(world: World):
    lost = failed(world, "vm_lost", "it is gone")
    failed(world, None)
    failed(world, "step_timeout")
    internal = failed(world, "internal_error")
    faults = world.storage.overview.faults(5)
    assert [(each.number, each.error_code) for each in faults] == [(internal, "internal_error"), (lost, "vm_lost")]
    assert (faults[1].organization, faults[1].pipeline, faults[1].step_key) == ("acme", "web", "step")
    assert (faults[1].error_message, faults[1].finished_at < faults[0].finished_at) == ("it is gone", True)
    assert len(world.storage.overview.faults(1)) == 1


def test_accounts_are_summed_and_the_empty_ones_counted(world: World):
    before = world.storage.overview.balances()
    assert (before.cents, before.empty > 0) == (0, True)
    world.storage.ledger.append(world.pipeline.organization_id, 500, LedgerSource.ADMIN_GRANT, None)
    assert world.storage.overview.balances() == Balances(500, before.empty - 1)
