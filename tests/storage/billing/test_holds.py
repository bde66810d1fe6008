from __future__ import annotations

import threading
from datetime import datetime, timedelta

import apsw
import pytest

from storage import Hold, HoldEnd, Job, JobState, Storage
from storage.database.clock import from_micros
from tests.records import new_job
from tests.state import run_sql
from tests.storage.model import MICRO_CENTS_A_SECOND
from tests.storage.world import World

TEN_MINUTES = 600


def hold(world: World, job: Job, seconds: int = TEN_MINUTES) -> Hold:
    """Fail a job and hold its VM."""
    lease = world.start(job)
    world.clock.advance(seconds=100)
    failed = {"to": JobState.FAILED, "exit_code": 1, "held_seconds": seconds}
    assert world.finish(job, lease, **failed)
    held = world.storage.holds.of_lease(lease.id)
    assert held is not None
    return held


@pytest.fixture
def job(world: World) -> Job:
    return world.job(world.build())


def debits(world: World) -> list[tuple[str | None, int]]:
    """Return the ledger's entries, oldest first."""
    entries = world.storage.ledger.entries(world.pipeline.organization_id)
    return [(entry.description, entry.amount_cents) for entry in entries]


def ended(world: World, job: Job) -> tuple[str, int, datetime]:
    """Return the reason, the amount in cents and the time of the end of a job's only hold."""
    columns = "reason, amount_cents, finished_at"
    ((reason, cents, at),) = run_sql(
        world.storage.directory, f"SELECT {columns} FROM holds WHERE job_id = :job", job=job.id
    )
    return reason, cents, from_micros(at)


def test_a_hold_begins_at_the_jobs_end_at_the_price_of_its_lease(world: World, job: Job):
    held = hold(world, job)
    assert held.started_at == world.clock.now()
    assert held.until == world.clock.now() + timedelta(seconds=TEN_MINUTES)
    assert held.micro_cents == MICRO_CENTS_A_SECOND
    assert (held.reason, held.finished_at, held.amount_cents) == (None, None, 0)
    assert debits(world) == [("web #1 step", -4)]
    assert [lease.id for lease in world.storage.leases.live()] == [held.lease_id]
    assert world.storage.holds.open() == [held]
    assert world.storage.holds.of_build(job.build_id) == [held]
    assert world.storage.holds.of_build(job.build_id + 1) == []
    assert world.storage.holds.over() == []


def test_a_job_that_does_not_end_as_believed_has_no_hold(world: World, job: Job):
    lease = world.start(job)
    assert not world.finish(job, lease, frm=JobState.ASSIGNED, to=JobState.FAILED, held_seconds=60)
    assert world.storage.holds.open() == []


@pytest.mark.parametrize(
    ("seconds", "reason", "cents"),
    [(600, HoldEnd.EXPIRED, 25), (90_000, HoldEnd.EXPIRED, 25), (119.9, HoldEnd.KILLED, 4), (300, HoldEnd.LOST, 0)],
)
def test_a_hold_is_charged_once_and_at_most_for_its_length(
    world: World, job: Job, seconds: float, reason: HoldEnd, cents: int
):
    held = hold(world, job)
    world.clock.advance(seconds=seconds)
    assert world.storage.holds.end(held.id, reason)
    assert not world.storage.holds.end(held.id, HoldEnd.EXPIRED)
    assert debits(world) == [("web #1 step", -4), ("web #1 step, held", -cents)]
    assert ended(world, job) == (reason, cents, min(held.until, world.clock.now()))
    assert world.storage.holds.open() == []
    assert world.storage.ledger.verify() == []


def test_concurrent_ends_write_one_debit(world: World, job: Job):
    held = hold(world, job)
    threads = [threading.Thread(target=world.storage.holds.end, args=(held.id, HoldEnd.EXPIRED)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(debits(world)) == 2


def test_a_hold_ends_in_time_or_if_the_clock_is_set_back(world: World, job: Job):
    held = hold(world, job)
    world.clock.advance(seconds=TEN_MINUTES - 1)
    assert world.storage.holds.over() == []
    world.clock.advance(seconds=1)
    assert world.storage.holds.over() == [held]
    world.clock.advance(days=-1)
    assert world.storage.holds.over() == [held]
    world.storage.holds.end(held.id, HoldEnd.EXPIRED)
    assert debits(world)[-1] == ("web #1 step, held", 0)


def test_a_hold_that_begins_during_a_look_is_not_over(world: World, job: Job, monkeypatch: pytest.MonkeyPatch):
    """A look reads the clock, and then waits for the transaction in which the hold begins."""
    held = hold(world, job)
    readings, now = iter([held.started_at - timedelta(milliseconds=1)]), world.clock.now
    monkeypatch.setattr(world.clock, "now", lambda: next(readings, None) or now())
    assert world.storage.holds.over() == []


def test_a_shortened_hold_is_charged_up_to_the_request(world: World, job: Job):
    """However late its VM ends."""
    held = hold(world, job)
    world.clock.advance(seconds=240)
    assert world.storage.holds.shorten(held.id, HoldEnd.RELEASED)
    (over,) = world.storage.holds.over()
    world.clock.advance(hours=3)
    assert world.storage.holds.shorten(held.id, HoldEnd.KILLED)
    assert world.storage.holds.end(over.id, HoldEnd.EXPIRED)
    assert not world.storage.holds.shorten(held.id, HoldEnd.KILLED)
    assert ended(world, job)[0] == HoldEnd.RELEASED
    assert debits(world)[-1] == ("web #1 step, held", -10)


def test_a_deleted_pipeline_or_organization_ends_its_holds(storage: Storage, world: World):
    kept = hold(world, world.job(world.build(pipeline=world.other_pipeline("Other"))))
    other = world.other_pipeline("Closing")
    (owner,) = storage.members.all(other.organization_id)
    closing = hold(world, world.job(world.build(pipeline=other)))
    build = world.build()
    going = hold(world, world.job(build))
    world.finish_build(build)
    world.clock.advance(seconds=60)
    storage.pipelines.delete(world.pipeline.id)
    assert [each.id for each in storage.holds.over()] == [going.id]
    user = storage.users.by_email(owner.email)
    assert user is not None
    storage.accounts.close(user.id)
    assert [(each.id, each.reason) for each in storage.holds.over()] == [
        (closing.id, HoldEnd.DELETED),
        (going.id, HoldEnd.DELETED),
    ]
    for each in storage.holds.over():
        assert storage.holds.end(each.id, HoldEnd.EXPIRED)
    assert [each.id for each in storage.holds.open()] == [kept.id]
    assert storage.ledger.verify() == []


def test_usage_has_holds_and_leases_and_agrees_with_the_ledger(storage: Storage, world: World, job: Job):
    organization, since = world.pipeline.organization_id, world.clock.now()
    held = hold(world, job)
    window = (since, since + timedelta(days=1))
    before = storage.usage.total(organization, *window)
    ((while_open,)) = storage.usage.breakdown(organization, *window)
    assert [(use.amount_cents, use.seconds) for use in while_open.leases] == [(4, 100), (0, None)]
    world.clock.advance(seconds=300)
    storage.holds.end(held.id, HoldEnd.KILLED)
    total = storage.usage.total(organization, *window)
    assert (before.cpu_seconds, total.cpu_seconds) == (200, 800)
    ((used,)) = storage.usage.breakdown(organization, *window)
    assert [(use.vm, use.step_key, use.amount_cents, use.seconds) for use in used.leases] == [
        (held.vm, "step", 4, 100),
        (held.vm, "step", 12, 300),
    ]
    days = storage.usage.series(organization, *window)
    assert total.total_cents == used.total_cents == sum(day.usage.total_cents for day in days) == 16
    assert storage.ledger.balance(organization) == -16


def test_verification_finds_a_hold_that_was_charged_wrongly(storage: Storage, world: World):
    job = world.job(world.build(new_job("dear")))
    held = hold(world, job)
    world.clock.advance(hours=1)
    storage.holds.end(held.id, HoldEnd.EXPIRED)
    shell = apsw.Connection(str(storage.directory / "ci-daemon.sqlite3"))
    shell.execute("UPDATE holds SET amount_cents = 99")
    shell.close()
    (found,) = storage.ledger.verify()
    assert found.problem == f"the hold of job {job.uuid} is debited 25 cents, it cost 99"
