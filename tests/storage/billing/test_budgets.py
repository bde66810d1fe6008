from __future__ import annotations

import pytest

from storage import Build, BuildState, HoldEnd, Job, JobState, TokenLimits
from storage.database.connection import Database
from tests.records import new_job
from tests.state import run_sql
from tests.storage.work import counted_work
from tests.storage.world import World

HUNDRED = 100
"""Seconds that cost 4 cents."""


def key(world: World, cents: int) -> int:
    """Return an API key with a budget."""
    user = world.storage.users.create(f"agent-{next(world.names)}@example.org", "Agent")
    limits = TokenLimits(("start",), budget_cents=cents)
    return world.storage.tokens.create_api_key(user.id, "agent", limits=limits)[0].id


def ran(world: World, job: Job, seconds: int = HUNDRED) -> None:
    lease = world.start(job)
    world.clock.advance(seconds=seconds)
    assert world.finish(job, lease)


def spent(world: World, budget: int) -> int:
    found = world.storage.budgets.of_key(budget)
    assert found is not None
    return found.spent_cents


def debits(world: World) -> list[int]:
    return [entry.amount_cents for entry in world.storage.ledger.entries(world.pipeline.organization_id)]


def reason(world: World, build: Build) -> tuple[str | None, bool]:
    found = world.storage.builds.get(build.id)
    assert found is not None
    return found.error_code, found.cancel_requested


def test_jobs_cost_at_most_what_the_budget_has_left(world: World):
    budget = key(world, 5)
    build = world.build(new_job("a"), new_job("b"), new_job("c"), budget_id=budget)
    for job in world.jobs(build):
        ran(world, job)
    assert debits(world) == [-4, -1, 0]
    assert spent(world, budget) == 5
    assert world.storage.ledger.verify() == []


def test_what_runs_counts_before_it_has_ended(world: World):
    budget = key(world, 5)
    job = world.job(world.build(budget_id=budget))
    world.start(job)
    world.clock.advance(seconds=HUNDRED)
    assert spent(world, budget) == 4


def test_a_fork_costs_at_most_what_the_budget_has_left(world: World):
    budget = key(world, 5)
    job = world.job(world.build())
    ran(world, job)
    for vm in ("one", "two"):
        with world.storage.transaction():
            lease = world.storage.leases.reserve_fork(
                vm, "sandbox", "debian:12", job.shape, network=True, organization_id=world.pipeline.organization_id
            )
            world.storage.holds.begin_fork(lease.id, job.id, 10 * HUNDRED, "agent", budget)
        world.clock.advance(seconds=HUNDRED)
        held = world.storage.holds.of_lease(lease.id)
        assert held is not None
        assert world.storage.holds.end(held.id, HoldEnd.RELEASED)
    assert debits(world) == [-4, -4, -1]
    assert spent(world, budget) == 5
    assert world.storage.ledger.verify() == []


def test_the_hold_of_a_jobs_vm_is_of_its_builds_budget(world: World):
    budget = key(world, 5)
    job = world.job(world.build(budget_id=budget))
    lease = world.start(job)
    assert world.finish(job, lease, to=JobState.FAILED, exit_code=1, held_seconds=10 * HUNDRED)
    world.clock.advance(seconds=10 * HUNDRED)
    world.storage.budgets.end_what_is_over()
    assert [held.id for held in world.storage.holds.over()] == [held.id for held in world.storage.holds.open()]
    (held,) = world.storage.holds.open()
    assert world.storage.holds.end(held.id, HoldEnd.EXPIRED)
    assert spent(world, budget) == 5


def test_what_runs_ends_when_nothing_is_left(world: World):
    budget = key(world, 5)
    build, other = world.build(budget_id=budget), world.build()
    for each in (build, other):
        world.start(world.job(each))
    world.clock.advance(seconds=HUNDRED)
    world.storage.budgets.end_what_is_over()
    assert reason(world, build) == (None, False)
    world.clock.advance(seconds=19.9)
    world.storage.budgets.end_what_is_over()
    assert reason(world, build) == (None, False)  # as long as it would be charged less if it ended now
    world.clock.advance(seconds=HUNDRED)
    world.storage.budgets.end_what_is_over()
    assert reason(world, build) == ("budget_exhausted", True)
    assert reason(world, other) == (None, False)
    assert world.storage.builds.to_cancel() == [build.id]


@pytest.mark.parametrize("again", [True, False])
def test_who_retries_pays(world: World, again: bool):
    budget, other = key(world, 100), key(world, 100)
    build = world.build(budget_id=budget)
    job = world.job(build)
    lease = world.start(job)
    assert world.finish(job, lease, to=JobState.FAILED, exit_code=1)
    world.storage.leases.end(lease.id)
    assert world.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.FAILED)
    failed = world.storage.builds.get(build.id)
    assert failed is not None
    payer = other if again else None
    world.storage.retries.begin(failed, BuildState.SCHEDULED, world.jobs(build), {job.id: JobState.SCHEDULED}, payer)
    ran(world, world.job(build))
    assert spent(world, budget) == 0
    assert spent(world, other) == (4 if again else 0)


def test_a_look_costs_the_same_however_much_has_ended(world: World, database: Database):
    budget = key(world, 100)
    world.build(budget_id=budget)
    works = []
    for ended in (1, 200):
        for _ in range(ended):
            world.finish_build(world.build(budget_id=budget))
        with counted_work(database) as counted:
            world.storage.budgets.end_what_is_over()
        works.append(counted[0])
    assert works[1] <= works[0] + 1


def test_the_database_refuses_more_than_a_budget(world: World):
    budget = key(world, 5)
    with pytest.raises(Exception, match="CHECK constraint failed"):
        run_sql(world.storage.directory, "UPDATE tokens SET spent_cents = 6 WHERE id = :id", id=budget)
