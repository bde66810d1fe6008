"""Steps of the wall clock: durations ignore them, waits follow, and retention asks about large ones."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import JobState, NewBuild, Outcome, Storage
from storage.database.clock import Timeline
from tests.clock import ManualClock
from tests.records import new_job, new_pipeline, started

_steps = st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 10**6)), max_size=8)


@given(_steps, st.integers(0, 10**5))
def test_a_duration_over_steps_ahead_is_the_time_that_passed(steps: list[tuple[int, int]], first: int):
    clock = ManualClock()
    timeline = Timeline(clock)
    clock.advance(first)
    began, passed = clock.now(), 0
    for ahead, seconds in steps:
        clock.set_ahead(seconds=abs(ahead))
        timeline.look()
        clock.advance(seconds)
        passed += seconds
    assert timeline.seconds_since(began) == passed
    assert timeline.seconds_between(began, clock.now()) == passed


@given(_steps, st.integers(0, 10**6))
def test_nothing_is_ever_older_than_the_time_that_passed(steps: list[tuple[int, int]], age: int):
    """If the wall clock showed an instant twice, what was stored then counts as younger, never as older."""
    clock = ManualClock()
    timeline = Timeline(clock)
    stored = [(clock.now(), clock.monotonic())]
    for by, seconds in steps:
        clock.set_ahead(seconds=by)
        timeline.look()
        stored.append((clock.now(), clock.monotonic()))
        clock.advance(seconds)
    before = timeline.ago(timedelta(seconds=age))
    for at, since in stored:
        passed = clock.monotonic() - since
        assert timeline.seconds_since(at) <= passed
        if at < before:
            assert passed >= age


@pytest.mark.parametrize("by", [timedelta(days=400), timedelta(hours=1), timedelta(days=-2)])
def test_a_successor_knows_of_a_step_while_no_service_ran(storage: Storage, clock: ManualClock, by: timedelta):
    storage.clock_steps.resume()
    clock.advance(hours=1)
    began = clock.now()
    clock.advance(minutes=5)
    clock.set_ahead(seconds=by.total_seconds())
    successor = Storage.open(storage.directory, clock)
    successor.clock_steps.resume()
    assert successor.timeline.seconds_since(began) == 300
    found = successor.clock_steps.jump
    assert found is not None
    assert found.by == by
    successor.close()


def test_retention_goes_on_once_the_owner_confirms_a_step(storage: Storage, clock: ManualClock):
    storage.clock_steps.resume()
    clock.set_ahead(days=400)
    assert storage.clock_steps.jump is not None
    storage.clock_steps.follow()
    command = Storage.open(storage.directory, clock)
    command.clock_steps.read()
    assert command.clock_steps.confirm() is not None
    command.close()
    assert storage.clock_steps.jump is None
    clock.set_ahead(days=-400)
    assert storage.clock_steps.jump is not None


def test_time_that_passes_and_small_steps_are_no_jump(storage: Storage, clock: ManualClock):
    storage.clock_steps.resume()
    clock.advance(days=400)
    clock.set_ahead(minutes=5)
    storage.clock_steps.follow()
    assert storage.clock_steps.jump is None


@pytest.mark.parametrize(
    ("off", "believed"), [(60.0, True), (2 * 86_400.0, True), (400 * 86_400.0, False), (-7200.0, False)]
)
def test_after_a_reboot_three_days_of_absence_are_believed(
    storage: Storage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, off: float, believed: bool
):
    storage.clock_steps.resume()
    clock.advance(hours=5)
    began = clock.now()
    storage.clock_steps.confirm()
    rebooted = ManualClock(began + timedelta(seconds=off))
    rebooted.advance(-990)  # it has been up for ten seconds
    rebooted.set_ahead(seconds=1000)
    monkeypatch.setattr("storage.clock_steps.boot_id", lambda: "another")
    successor = Storage.open(storage.directory, rebooted)
    successor.clock_steps.resume()
    assert (successor.clock_steps.jump is None) is believed
    assert successor.timeline.seconds_since(began) == pytest.approx(off + 10 if believed else 10)
    successor.close()


@pytest.mark.parametrize("by", [timedelta(hours=1), timedelta(hours=-1)])
def test_waits_and_holds_move_with_a_clock_that_is_set(storage: Storage, clock: ManualClock, by: timedelta):
    """Both last as long as they would have, and a hold costs what it would have."""
    pipeline = new_pipeline(storage)
    storage.clock_steps.resume()
    planned = [new_job("waits", retry_policy={"limit": 1, "backoff_seconds": 60}), new_job("held")]
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), planned)
    waits, held = storage.jobs.of_build(build.id)
    lease = started(storage, held)
    failed = Outcome(exit_code=1)
    assert storage.jobs.finish(
        held.id, JobState.RUNNING, JobState.FAILED, failed, lease_id=lease.id, billable=True, held_seconds=600
    )
    (hold,) = storage.holds.open()
    lease = started(storage, waits)
    assert storage.jobs.retry(waits.id, JobState.RUNNING, failed, lease_id=lease.id, billable=True, backoff_seconds=60)
    clock.set_ahead(seconds=by.total_seconds())
    storage.clock_steps.follow()
    (moved,) = storage.holds.open()
    assert (moved.started_at - hold.started_at, moved.until - hold.until) == (by, by)
    clock.advance(59)
    storage.clock_steps.follow()
    assert storage.queue.wake() == clock.now() + timedelta(seconds=1)
    assert storage.holds.over() == []
    clock.advance(1)
    assert storage.queue.wake() is None
