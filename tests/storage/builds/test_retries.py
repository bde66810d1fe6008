from __future__ import annotations

import pytest

from actors import retry
from storage import Build, BuildBusy, BuildState, HoldEnd, Job, JobState, Lease, Outcome, Storage
from tests.clock import ManualClock
from tests.records import new_job
from tests.state import run_sql
from tests.storage.world import World


def _now(world: World, build: Build) -> Build:
    found = world.storage.builds.get(build.id)
    assert found is not None
    return found


def _failed(world: World, build: Build, *, held_seconds: int = 0) -> tuple[Job, Lease]:
    """Fail the one job of a build in a VM."""
    job = world.job(build)
    lease = world.start(job)
    world.clock.advance(seconds=100)
    assert world.finish(job, lease, to=JobState.FAILED, held_seconds=held_seconds)
    assert world.storage.builds.move(build.id, _now(world, build).state, BuildState.FAILED)
    return job, lease


def test_nothing_late_changes_another_run(storage: Storage, world: World):
    build = world.build()
    job, lease = _failed(world, build)
    storage.leases.end(lease.id)
    assert retry(storage, _now(world, build))
    second = world.start(world.job(build))
    late = {"lease_id": lease.id, "billable": True, "attempt": 1}

    assert not storage.jobs.move(job.id, JobState.RUNNING, JobState.CANCELING, attempt=1)
    assert not storage.jobs.finish(job.id, JobState.RUNNING, JobState.FAILED, Outcome(), **late)
    assert not storage.jobs.retry(job.id, JobState.RUNNING, Outcome(), **late)
    assert world.state(job) is JobState.RUNNING
    assert storage.jobs.finish(
        job.id, JobState.RUNNING, JobState.PASSED, Outcome(), lease_id=second.id, billable=True, attempt=2
    )
    assert storage.ledger.verify() == []


def test_a_held_vm_is_let_go_and_may_be_held_again(storage: Storage, world: World, clock: ManualClock):
    build = world.build(debug=True)
    _, lease = _failed(world, build, held_seconds=600)
    (hold,) = storage.holds.open()
    clock.advance(seconds=10)
    assert retry(storage, _now(world, build))
    assert [each.id for each in storage.holds.over()] == [hold.id]
    assert storage.holds.end(hold.id, HoldEnd.EXPIRED)
    storage.leases.end(lease.id)

    _, again = _failed(world, build, held_seconds=600)
    assert [each.lease_id for each in storage.holds.open()] == [again.id]
    assert storage.ledger.verify() == []


def test_a_build_with_a_vm_is_not_retried_and_stays_as_it_is(storage: Storage, world: World):
    build = world.build()
    _failed(world, build)
    before = _now(world, build)
    with pytest.raises(BuildBusy, match="try again"):
        retry(storage, before)
    assert _now(world, build) == before
    assert world.state(world.job(build)) is JobState.FAILED


@pytest.mark.parametrize("missing", ["debit", "cents"])
def test_verification_finds_a_wrong_debit_of_another_run(
    storage: Storage, world: World, clock: ManualClock, missing: str, monkeypatch: pytest.MonkeyPatch
):
    build = world.build()
    _, lease = _failed(world, build)
    storage.leases.end(lease.id)
    assert retry(storage, _now(world, build))
    job = world.job(build)
    second = world.start(job)
    clock.advance(seconds=100)
    if missing == "debit":
        monkeypatch.setattr(storage.ledger, "debit_job", lambda _: None)
    assert world.finish(job, second)
    if missing == "cents":
        run_sql(
            storage.directory,
            "DROP TRIGGER ledger_entries_refuse_update;"
            "UPDATE ledger_entries SET amount_cents = amount_cents + 1 WHERE id = (SELECT max(id) FROM ledger_entries);"
            "UPDATE organizations SET balance_cents = balance_cents + 1 WHERE id = :organization",
            organization=build.organization_id,
        )
    assert [each.problem.startswith(f"job {job.uuid} is debited") for each in storage.ledger.verify()] == [True]


def test_a_retried_job_awaits_its_lock_again(storage: Storage, world: World):
    """Another one may have got it meanwhile."""
    build = world.build(new_job("only", lock="deploy"))
    assert storage.queue.give_locks()
    _, lease = _failed(world, build)
    storage.leases.end(lease.id)
    other = world.build(new_job("only", lock="deploy"))
    assert storage.queue.give_locks()
    assert retry(storage, _now(world, build))
    assert not storage.queue.give_locks()
    assert [world.job(each).awaits_lock for each in (build, other)] == [True, False]
