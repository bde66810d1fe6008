from __future__ import annotations

from datetime import timedelta

import pytest

from storage import Job, JobState, LeaseState, Outcome, Storage
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World

TERMINAL = [state for state in JobState if state.terminal]


def _reload(world: World, job: Job) -> Job:
    found = world.storage.jobs.get(job.id)
    assert found is not None
    return found


def test_a_job_is_found_by_id_and_uuid(storage: Storage, world: World):
    job = world.job(world.build())
    assert storage.jobs.get(job.id) == storage.jobs.by_uuid(job.uuid) == job
    assert storage.jobs.get(999) is storage.jobs.by_uuid("x") is None


def test_a_move_happens_from_the_expected_state_alone(storage: Storage, world: World):
    job = world.job(world.build())
    assert not storage.jobs.move(job.id, JobState.PENDING, JobState.CANCELED, Outcome(error_code="late"))
    assert _reload(world, job) == job


@pytest.mark.parametrize("terminal", TERMINAL)
def test_a_late_message_never_undoes_a_terminal_state(storage: Storage, world: World, terminal: JobState):
    job = world.job(world.build())
    assert storage.jobs.move(job.id, JobState.SCHEDULED, terminal)
    for state in JobState:
        assert not storage.jobs.move(job.id, terminal, state)
        assert not storage.jobs.retry(job.id, terminal, Outcome(), lease_id=None, billable=True)
    assert world.state(job) is terminal


def test_each_step_of_a_life_sets_its_instant_once(storage: Storage, world: World, clock: ManualClock):
    waiting = world.jobs(world.build(new_job("a"), new_job("b", (0, "depends_on", False))))[1]
    scheduled = clock.advance(seconds=1)
    assert storage.jobs.move(waiting.id, JobState.PENDING, JobState.SCHEDULED)
    clock.advance(seconds=1)
    assert world.assign(waiting) is not None
    started = clock.advance(seconds=1)
    assert storage.jobs.move(waiting.id, JobState.ASSIGNED, JobState.RUNNING)
    finished = clock.advance(seconds=1)
    assert storage.jobs.move(waiting.id, JobState.RUNNING, JobState.PASSED, Outcome(exit_code=0))
    job = _reload(world, waiting)
    assert (job.scheduled_at, job.started_at, job.finished_at) == (scheduled, started, finished)


def test_a_move_changes_only_the_given_fields(storage: Storage, world: World):
    job = world.job(world.build())
    storage.jobs.move(job.id, JobState.SCHEDULED, JobState.ASSIGNED, Outcome(error_code="c", error_message="m"))
    storage.jobs.move(job.id, JobState.ASSIGNED, JobState.FAILED, Outcome(exit_code=3, soft_failed=True))
    after = _reload(world, job)
    assert (after.error_code, after.error_message, after.exit_code) == ("c", "m", 3)
    assert (after.soft_failed, after.cache_hit) == (True, False)


def test_a_cache_hit_passes_without_lease_attempt_or_debit(storage: Storage, world: World):
    job = world.job(world.build())
    assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.PASSED, Outcome(cache_hit=True))
    assert _reload(world, job).cache_hit
    assert storage.leases.of_job(job.id) is None
    assert storage.attempts.of_job(job.id) == []
    assert storage.ledger.page(world.pipeline.organization_id, 10, None).rows == ()


def test_finishing_closes_job_attempt_and_lease_and_debits_once(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build(new_job("lint")))
    lease = world.start(job)
    ended = clock.advance(seconds=100)
    assert world.finish(job, lease, to=JobState.FAILED, exit_code=2, error_message="m", soft_failed=True)
    after = _reload(world, job)
    assert (after.state, after.exit_code, after.error_message, after.soft_failed) == (JobState.FAILED, 2, "m", True)
    (attempt,) = storage.attempts.of_job(job.id)
    assert (attempt.number, attempt.state, attempt.exit_code, attempt.finished_at) == (1, JobState.FAILED, 2, ended)
    closed = storage.leases.get(lease.id)
    assert closed is not None
    assert (closed.state, closed.finished_at, closed.amount_cents) == (LeaseState.ACTIVE, ended, 4)
    (debit,) = storage.ledger.page(world.pipeline.organization_id, 10, None).rows
    assert (debit.amount_cents, debit.description, debit.source) == (-4, "web #1 lint", "vm_lease_debit")
    assert storage.ledger.balance(world.pipeline.organization_id) == -4


def test_a_finish_that_comes_too_late_changes_nothing(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.start(job)
    clock.advance(seconds=100)
    assert world.finish(job, lease)
    before = (_reload(world, job), storage.leases.live(), storage.attempts.of_job(job.id))
    clock.advance(seconds=100)
    assert not world.finish(job, lease, to=JobState.FAILED)
    assert not world.finish(job, lease, frm=JobState.PASSED, to=JobState.FAILED)
    assert not world.finish(job, None)
    assert (_reload(world, job), storage.leases.live(), storage.attempts.of_job(job.id)) == before
    assert len(storage.ledger.page(world.pipeline.organization_id, 10, None).rows) == 1


def test_a_job_finishes_in_a_terminal_state_only(world: World):
    job = world.job(world.build())
    with pytest.raises(ValueError, match="does not finish as running"):
        world.finish(job, None, frm=JobState.SCHEDULED, to=JobState.RUNNING)


def test_a_retry_keeps_the_jobs_place_in_the_queue(storage: Storage, world: World, clock: ManualClock):
    """Its attempt is closed."""
    job = world.job(world.build())
    lease = world.start(job)
    lost = clock.advance(seconds=240)
    assert storage.jobs.retry(
        job.id, JobState.RUNNING, Outcome(error_code="vm_lost"), lease_id=lease.id, billable=False
    )
    after = _reload(world, job)
    assert (after.state, after.attempt, after.scheduled_at) == (JobState.SCHEDULED, 1, job.scheduled_at)
    assert (after.error_code, after.exit_code, after.finished_at) == (None, None, None)
    (attempt,) = storage.attempts.of_job(job.id)
    assert (attempt.state, attempt.error_code, attempt.finished_at) == (JobState.FAILED, "vm_lost", lost)
    again = world.start(job)
    assert (again.attempt, _reload(world, job).attempt) == (2, 2)
    assert [attempt.number for attempt in storage.attempts.of_job(job.id)] == [1, 2]
    assert storage.ledger.page(world.pipeline.organization_id, 10, None).rows == ()


def test_a_back_off_is_cleared_by_the_next_attempt(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.start(job)
    assert storage.jobs.retry(
        job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True, backoff_seconds=30
    )
    assert _reload(world, job).not_before == clock.now() + timedelta(seconds=30)
    world.start(job)
    assert _reload(world, job).not_before is None


def test_one_debit_covers_all_attempts_except_lost_ones(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    for billable in (True, False):
        lease = world.start(job)
        clock.advance(seconds=240)
        assert storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=billable)
        clock.advance(seconds=1000)
    lease = world.start(job)
    clock.advance(seconds=480)
    assert world.finish(job, lease)
    assert storage.ledger.balance(world.pipeline.organization_id) == -(10 + 0 + 20)
    assert len(storage.ledger.page(world.pipeline.organization_id, 10, None).rows) == 1
    attempts = storage.attempts.of_job(job.id)
    assert [(attempt.state, attempt.exit_code) for attempt in attempts] == [
        (JobState.FAILED, 1),
        (JobState.FAILED, 1),
        (JobState.PASSED, 0),
    ]


def test_a_retried_job_canceled_in_the_queue_pays_for_its_runs(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.start(job)
    clock.advance(seconds=240)
    storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.CANCELED)
    assert storage.ledger.balance(world.pipeline.organization_id) == -10


def test_an_attempt_that_never_reached_its_command_is_free(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.assign(job)
    assert lease is not None
    clock.advance(seconds=1000)
    assert world.finish(job, lease, frm=JobState.ASSIGNED, to=JobState.FAILED, exit_code=None, error_code="vm_lost")
    assert storage.ledger.page(world.pipeline.organization_id, 10, None).rows == ()
    closed = storage.leases.get(lease.id)
    assert closed is not None
    assert closed.amount_cents == 0


def test_a_debit_of_nothing_is_written_too(storage: Storage, world: World):
    job = world.job(world.build())
    assert world.finish(job, world.start(job))
    (debit,) = storage.ledger.page(world.pipeline.organization_id, 10, None).rows
    assert debit.amount_cents == 0


def test_a_vm_gone_before_its_job_finishes_is_paid_to_its_end(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.start(job)
    clock.advance(seconds=240)
    storage.leases.end(lease.id)
    clock.advance(seconds=1000)
    assert world.finish(job, lease)
    assert storage.ledger.balance(world.pipeline.organization_id) == -10


def test_a_job_finishes_and_retries_without_a_lease_too(storage: Storage, world: World):
    job = world.job(world.build())
    storage.jobs.move(job.id, JobState.SCHEDULED, JobState.ASSIGNED)
    assert storage.jobs.retry(
        job.id, JobState.ASSIGNED, Outcome(error_code="lease_failed"), lease_id=None, billable=False
    )
    assert world.finish(job, None, frm=JobState.SCHEDULED, to=JobState.TIMED_OUT, error_code="pipeline_timeout")
    assert _reload(world, job).error_code == "pipeline_timeout"
