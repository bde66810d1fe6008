from __future__ import annotations

import pytest

from storage import BuildFinished, BuildState, EdgeKind, JobState, Outcome, Storage
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World

AFTER_FIRST = (0, EdgeKind.DEPENDS_ON, False)


@pytest.mark.parametrize(
    ("state", "of_running", "code", "reason"),
    [
        (BuildState.FAILED, JobState.FAILED, "internal_error", "the VM hangs"),
        (BuildState.CANCELED, JobState.CANCELED, None, None),
    ],
)
def test_a_build_ends_with_all_its_jobs_priced_debited_and_noted(
    storage: Storage,
    world: World,
    clock: ManualClock,
    state: BuildState,
    of_running: JobState,
    code: str | None,
    reason: str | None,
):
    build = world.build(new_job("runs"), new_job("queued"), new_job("waits", AFTER_FIRST), new_job("done"))
    runs, queued, waits, done = world.jobs(build)
    lease = world.start(runs)
    world.finish(done, world.start(done))
    at = clock.advance(seconds=240)
    held = storage.force_finish.end(build.id, state, actor="ada", note="the VM hangs")
    assert [each.uuid for each in held] == [lease.uuid]
    ended = storage.builds.get(build.id)
    assert ended is not None
    assert (ended.state, ended.finished_at, ended.error_code, ended.error_message) == (state, at, code, "the VM hangs")
    assert [world.state(job) for job in (runs, queued, waits, done)] == [of_running, "canceled", "canceled", "passed"]
    job = storage.jobs.get(runs.id)
    assert job is not None
    assert (job.error_code, job.error_message) == (code, reason)
    assert [attempt.finished_at for attempt in storage.attempts.of_job(runs.id)] == [at]
    entries = storage.ledger.page(build.organization_id, 10, None).rows
    assert [entry.amount_cents for entry in entries] == [-10, 0]
    assert storage.ledger.verify() == []
    (noted,) = storage.audit.page(10, None).rows
    assert (noted.actor, noted.action, noted.subject, noted.note) == (
        "ada",
        f"force-finish {state}",
        f"{build.organization_slug}/web/1",
        "the VM hangs",
    )


def test_a_stop_that_had_begun_ends_as_it_would_have(storage: Storage, world: World):
    build = world.build(new_job("canceled"), new_job("late"))
    canceled, late = world.jobs(build)
    for job, ending in ((canceled, JobState.CANCELING), (late, JobState.TIMING_OUT)):
        world.start(job)
        assert storage.jobs.move(job.id, JobState.RUNNING, ending)
    storage.force_finish.end(build.id, BuildState.FAILED, actor="ada", note="stuck")
    assert [world.state(job) for job in (canceled, late)] == ["canceled", "timed_out"]


def test_an_ended_attempt_keeps_its_price_and_releases_its_vm(storage: Storage, world: World, clock: ManualClock):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    clock.advance(seconds=240)
    storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    clock.advance(seconds=240)
    held = storage.force_finish.end(build.id, BuildState.CANCELED, actor="ada", note="stuck")
    assert [each.uuid for each in held] == [lease.uuid]
    assert storage.ledger.balance(build.organization_id) == -10
    assert storage.ledger.verify() == []


def test_what_comes_after_it_changes_nothing(storage: Storage, world: World):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    storage.force_finish.end(build.id, BuildState.CANCELED, actor="ada", note="stuck")
    assert not world.finish(job, lease)
    assert not storage.leases.start(lease.id, job.id)
    assert not storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    assert world.state(job) == "canceled"


def test_a_finished_build_is_left_alone(storage: Storage, world: World):
    build = world.build()
    world.finish_build(build)
    with pytest.raises(BuildFinished, match=r"web/1 is passed already: nothing to do"):
        storage.force_finish.end(build.id, BuildState.FAILED, actor="ada", note="no")
    assert storage.audit.page(10, None).rows == ()


@pytest.mark.parametrize("state", [BuildState.PASSED, BuildState.RUNNING])
def test_a_build_is_not_forced_to_pass(storage: Storage, world: World, state: BuildState):
    with pytest.raises(ValueError, match="not forced"):
        storage.force_finish.end(world.build().id, state, actor="ada", note="no")
