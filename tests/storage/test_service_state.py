"""Drained services, and up to where traces were sent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from storage import JobState, Storage
from tests.clock import ManualClock
from tests.storage.world import World


def test_a_host_that_is_drained_stays_so_until_it_is_resumed(storage: Storage, tmp_path: Path, clock: ManualClock):
    assert storage.switches.drained_since() is None
    since = clock.now()
    assert storage.switches.drain()
    clock.advance(hours=1)
    assert not storage.switches.drain()
    other = Storage.open(tmp_path / "state", clock)
    assert other.switches.drained_since() == since
    assert other.switches.resume()
    other.close()
    assert storage.switches.drained_since() is None
    assert not storage.switches.resume()


def test_builds_are_followed_in_the_order_in_which_they_ended(world: World):
    first, second, third, open_still = (world.build() for _ in range(4))
    began = world.clock.now()
    for build in (second, first, third):
        world.clock.advance(seconds=1)
        world.finish_build(build)
    ended = world.storage.builds.ended
    assert [build.id for build in ended(began, 2)] == [second.id, first.id]
    assert [build.id for build in ended(began + timedelta(seconds=2), 10)] == [third.id]
    assert open_still.id not in {build.id for build in ended(began, 10)}


def test_a_build_is_followed_by_when_its_end_was_recorded(world: World):
    """A build may have ended long before its end is recorded."""
    late, quick = world.build(), world.build()
    job = world.job(late)
    lease = world.start(job)
    world.clock.advance(minutes=1)
    world.finish_build(quick)
    sent = world.clock.now()
    world.clock.advance(minutes=1)
    world.storage.leases.note_exit(lease.id, job.id, 110.0)
    world.finish(job, lease)
    world.finish_build(late)
    (found,) = world.storage.builds.ended(sent, 10)
    assert (found.id, found.recorded_at) == (late.id, world.clock.now())
    assert found.finished_at == world.clock.now() - timedelta(seconds=110)


def test_how_far_traces_are_sent_is_remembered(world: World):
    sent = world.storage.traces_sent
    assert sent.until() is None
    for _ in range(2):
        until = world.clock.advance(seconds=1)
        sent.note(until)
        assert sent.until() == until


def test_an_attempt_has_its_vm_and_its_commands_end_once(world: World):
    job = world.job(world.build())
    lease = world.assign(job)
    assert lease is not None
    attempts, clock = world.storage.attempts, world.clock
    leased = clock.advance(seconds=1)
    attempts.leased(job.id)
    clock.advance(seconds=1)
    attempts.leased(job.id)
    world.storage.leases.start(lease.id, job.id)
    over = clock.advance(seconds=1)
    world.storage.leases.note_exit(lease.id, job.id, None)
    clock.advance(seconds=1)
    world.storage.leases.note_exit(lease.id, job.id, None)
    assert world.finish(job, lease, to=JobState.FAILED, exit_code=1)
    world.storage.leases.note_exit(lease.id, job.id, None)
    (attempt,) = attempts.of_job(job.id)
    assert (attempt.leased_at, attempt.exited_at, attempt.finished_at) == (leased, over, clock.now())
