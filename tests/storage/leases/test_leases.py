from __future__ import annotations

from datetime import timedelta

import pytest

from storage import JobState, LeaseState, Outcome, Shape, Storage
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World


def test_a_job_gets_a_new_lease_before_its_vm_is_made(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build(new_job(shape=Shape(1, 2, 3), network=False)))
    lease = world.assign(job, lease_uuid="vm")
    assert lease is not None
    assert (lease.uuid, lease.state, lease.created_at) == ("vm", LeaseState.CREATING, clock.now())
    assert (lease.job_id, lease.organization_id, lease.attempt) == (job.id, world.pipeline.organization_id, 1)
    assert (lease.shape, lease.network, lease.image) == (Shape(1, 2, 3), False, "debian:12")
    assert (lease.started_at, lease.finished_at, lease.amount_cents) == (None, None, 0)
    assert world.state(job) is JobState.ASSIGNED
    (attempt,) = storage.attempts.of_job(job.id)
    assert (attempt.number, attempt.state, attempt.started_at) == (1, JobState.ASSIGNED, None)


def test_a_job_that_waits_no_more_gets_none(storage: Storage, world: World):
    job = world.job(world.build())
    assert world.assign(job) is not None
    assert world.assign(job) is None
    assert len(storage.leases.live()) == 1
    assert len(storage.attempts.of_job(job.id)) == 1


@pytest.mark.parametrize("ready", [True, False])
def test_a_parked_vm_becomes_the_one_its_job_wants(storage: Storage, world: World, ready: bool):
    """One that is still being parked does too."""
    parked = storage.leases.reserve_parked("vm", "sandbox")
    assert (parked.state, parked.job_id, parked.organization_id) == (LeaseState.CREATING, None, None)
    assert (parked.image, parked.shape, parked.network) == (None, Shape(), True)
    if ready:
        assert storage.leases.parked(parked.id, "m1")
        assert not storage.leases.parked(parked.id, "m2")
        assert storage.leases.members() == {"m1": 1}
    job = world.job(world.build(new_job(image="alpine:3", shape=Shape(1, 2, 3), network=False)))
    lease = world.assign(job, parked_lease_id=parked.id, lease_uuid="unused")
    assert lease is not None
    assert (lease.id, lease.uuid, lease.state) == (parked.id, "vm", LeaseState.CREATING)
    assert (lease.job_id, lease.attempt, lease.organization_id) == (job.id, 1, world.pipeline.organization_id)
    assert (lease.image, lease.shape, lease.network) == ("alpine:3", Shape(1, 2, 3), False)


@pytest.mark.parametrize("state", ["parked", "taken", "ended"])
def test_a_parked_vm_becomes_the_one_of_a_preview(storage: Storage, world: World, state: str):
    parked = storage.leases.reserve_parked("vm", "sandbox")
    storage.leases.parked(parked.id)
    if state == "taken":
        world.assign(world.job(world.build()), parked_lease_id=parked.id)
    if state == "ended":
        storage.leases.end(parked.id)
    before = storage.leases.get(parked.id)
    lease = storage.leases.assign_preview(parked.id, "alpine:3", Shape(1, 2, 3))
    if state == "parked":
        assert lease is not None
        assert lease.is_preview
        assert (lease.id, lease.uuid, lease.image, lease.shape) == (parked.id, "vm", "alpine:3", Shape(1, 2, 3))
    else:
        assert lease is None
        assert storage.leases.get(parked.id) == before


@pytest.mark.parametrize("state", ["taken", "active", "ended", "missing"])
def test_a_vm_that_cannot_be_had_leaves_the_job_in_the_queue(storage: Storage, world: World, state: str):
    parked = storage.leases.reserve_parked("vm", "sandbox")
    if state in {"taken", "active"}:
        world.assign(world.job(world.build()), parked_lease_id=parked.id)
    if state == "active":
        assert storage.leases.active(parked.id)
    if state == "ended":
        storage.leases.end(parked.id)
    job = world.job(world.build())
    before = storage.leases.get(parked.id)
    assert world.assign(job, parked_lease_id=99 if state == "missing" else parked.id) is None
    assert storage.leases.get(parked.id) == before
    assert world.state(job) is JobState.SCHEDULED
    assert storage.attempts.of_job(job.id) == []


def test_a_parked_vm_stays_when_the_job_waits_no_more(storage: Storage, world: World):
    parked = storage.leases.reserve_parked("vm", "sandbox")
    storage.leases.parked(parked.id)
    job = world.job(world.build())
    storage.jobs.move(job.id, JobState.SCHEDULED, JobState.CANCELED)
    assert world.assign(job, parked_lease_id=parked.id) is None
    assert storage.leases.counts() == {LeaseState.PARKED: 1}


@pytest.mark.parametrize("taken", [True, False])
def test_only_a_lease_without_a_job_is_ended_as_unclaimed(storage: Storage, world: World, taken: bool):
    parked = storage.leases.reserve_parked("vm", "sandbox")
    if taken:
        world.assign(world.job(world.build()), parked_lease_id=parked.id)
    assert storage.leases.end_unclaimed(parked.id) == (not taken)
    assert [lease.id for lease in storage.leases.live()] == ([parked.id] if taken else [])
    assert not storage.leases.end_unclaimed(parked.id)


def test_starting_sets_lease_attempt_and_job_at_one_instant(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.assign(job)
    assert lease is not None
    assert storage.leases.active(lease.id)
    assert not storage.leases.active(lease.id)
    started = clock.advance(seconds=2)
    assert storage.leases.start(lease.id, job.id)
    clock.advance(seconds=2)
    assert not storage.leases.start(lease.id, job.id)
    running = storage.leases.of_job(job.id)
    found = storage.jobs.get(job.id)
    assert running is not None
    assert found is not None
    (attempt,) = storage.attempts.of_job(job.id)
    assert running.started_at == attempt.started_at == found.started_at == started
    assert (found.state, attempt.state) == (JobState.RUNNING, JobState.RUNNING)


def test_a_canceled_job_does_not_start_and_is_not_billed(storage: Storage, world: World):
    job = world.job(world.build())
    lease = world.assign(job)
    assert lease is not None
    storage.jobs.move(job.id, JobState.ASSIGNED, JobState.CANCELING)
    assert not storage.leases.start(lease.id, job.id)
    unchanged = storage.leases.get(lease.id)
    assert unchanged is not None
    assert unchanged.started_at is None


def test_an_ended_lease_is_live_no_more(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.assign(job)
    assert lease is not None
    assert [live.id for live in storage.leases.live()] == [lease.id]
    ended = clock.advance(seconds=1)
    storage.leases.end(lease.id)
    clock.advance(seconds=1)
    storage.leases.end(lease.id)
    after = storage.leases.by_uuid(lease.uuid)
    assert after is not None
    assert (after.state, after.finished_at) == (LeaseState.ENDED, ended)
    assert storage.leases.live() == []
    assert storage.leases.counts() == {}


def test_the_latest_lease_of_a_job_is_that_of_its_last_attempt(storage: Storage, world: World):
    job = world.job(world.build())
    assert storage.leases.of_job(job.id) is None
    first = world.start(job)
    storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=first.id, billable=True)
    second = world.start(job)
    latest = storage.leases.of_job(job.id)
    assert latest is not None
    assert latest.id == second.id
    assert storage.leases.counts() == {LeaseState.ACTIVE: 2}


def test_the_last_attempts_lease_may_be_older_if_parked(storage: Storage, world: World):
    parked = storage.leases.reserve_parked("parked-for-long", "sandbox")
    storage.leases.parked(parked.id)
    job = world.job(world.build())
    first = world.start(job)
    storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=first.id, billable=True)
    second = world.assign(job, parked_lease_id=parked.id, lease_uuid=parked.uuid)
    assert second is not None
    assert second.id < first.id
    assert storage.leases.of_job(job.id) == second


@pytest.mark.parametrize(
    ("jump", "rebooted", "seconds"),
    [({"days": 3}, False, 240), ({"days": -3}, False, 240), ({"days": 3}, True, 3 * 86_400 + 240)],
)
def test_a_clock_that_jumps_costs_nothing_within_one_boot(
    storage: Storage,
    world: World,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    jump: dict[str, float],
    rebooted: bool,
    seconds: int,
):
    lease = world.start(job := world.job(world.build()))
    clock.advance(seconds=240)
    uptime = clock.monotonic()
    clock.advance(**jump)
    monkeypatch.setattr(clock, "monotonic", lambda: uptime)
    if rebooted:
        monkeypatch.setattr("storage.billing.usage.boot_id", lambda: "another")
    world.finish(job, lease)
    over = storage.leases.get(lease.id)
    assert over is not None
    assert over.amount_cents == seconds * 42_000 // 1_000_000
    window = (lease.created_at - timedelta(days=1), lease.created_at + timedelta(days=1))
    assert storage.usage.total(world.pipeline.organization_id, *window).cpu_seconds == 2 * seconds


class TestTheEndOfACommand:
    """The VM reports how long ago the command ended; billing stops there, within observed bounds."""

    @pytest.mark.parametrize(
        ("seconds_ago", "ran"),
        [(None, 100.0), (0.0, 100.0), (40.0, 60.0), (95.0, 30.0), (1e300, 30.0)],
        ids=["not told", "now", "a while ago", "before it was seen", "before all time"],
    )
    def test_it_is_between_when_it_was_last_seen_and_now(
        self, storage: Storage, world: World, clock: ManualClock, seconds_ago: float | None, ran: float
    ):
        lease = world.start(job := world.job(world.build()))
        clock.advance(seconds=30)
        assert storage.leases.note_running(lease.id) == 30
        clock.advance(seconds=70)
        assert storage.leases.note_exit(lease.id, job.id, seconds_ago) == ran
        clock.advance(seconds=3600)
        assert world.finish(job, lease, to=JobState.TIMED_OUT, frm=JobState.RUNNING)
        storage.leases.end(lease.id)
        over, ended = storage.leases.get(lease.id), storage.jobs.get(job.id)
        assert over is not None
        assert ended is not None
        assert over.finished_at == ended.finished_at
        assert over.amount_cents == int(ran) * 42_000 // 1_000_000
        assert storage.ledger.verify() == []

    def test_it_was_not_before_its_start(self, storage: Storage, world: World, clock: ManualClock):
        lease = world.start(job := world.job(world.build()))
        clock.advance(seconds=100)
        assert storage.leases.note_exit(lease.id, job.id, 200.0) == 0

    def test_the_first_word_of_it_counts(self, storage: Storage, world: World, clock: ManualClock):
        lease = world.start(job := world.job(world.build()))
        first = clock.advance(seconds=10)
        storage.leases.note_exit(lease.id, job.id, 0.0)
        clock.advance(seconds=10)
        storage.leases.note_exit(lease.id, job.id, 0.0)
        world.finish(job, lease)
        over = storage.leases.get(lease.id)
        assert over is not None
        assert over.finished_at == first

    def test_a_clock_that_jumped_moves_nothing(
        self, storage: Storage, world: World, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ):
        lease = world.start(job := world.job(world.build()))
        clock.advance(seconds=50)
        uptime = clock.monotonic()
        monkeypatch.setattr(clock, "monotonic", lambda: uptime)
        clock.advance(days=3)
        assert storage.leases.note_running(lease.id) == 50
        assert storage.leases.note_exit(lease.id, job.id, 0.0) == 50
