"""Reports of pull requests whose head cannot be fetched yet: nothing else waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories.fetching.mirror import Heads, Mirror
from actors.repositories.settings import RepositorySettings
from storage import BuildSettings, BuildState
from tests.actors.repositories.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.check()
    yield world
    world.storage.close()


def test_a_head_that_comes_late_is_built_all_the_same(world: World):
    late, other = world.remote.commit("Late"), world.remote.commit("Other")
    world.arrive(other, 2)
    world.report(late)
    world.report(other, 2)
    assert world.check() == [other]
    waits = world.reported()
    assert (waits.attempts, waits.processed_at) == (1, None)
    assert f"pull request 1 of {world.repository.url} cannot be fetched: " in str(waits.last_error)
    world.arrive(other)
    world.clock.advance(10)
    assert world.check() == [other, late]
    world.clock.advance(86_400)
    assert world.check() == [other, late]
    assert world.reported().last_error is None


def test_a_failed_check_is_no_attempt_at_a_head_that_waits(world: World):
    world.report(world.remote.commit("Late"))
    world.check()
    world.storage.deliveries.failed(world.repository.id, "no route to host")
    assert world.reported().attempts == 1


def test_a_head_that_never_comes_is_given_up(world: World):
    world.arrive(world.remote.commit("Before"))
    gone = world.remote.commit("Gone")
    world.report(gone)
    began = world.clock.now()
    while world.check() == [] and world.reported().processed_at is None:
        world.clock.advance(10)
    given_up = world.reported()
    assert (given_up.attempts, (world.clock.now() - began).total_seconds()) == (8, 10 * (2**7 - 1))
    assert given_up.last_error == f"pull request 1 of {world.repository.url} does not have the commit {gone}"


def test_a_head_that_is_too_large_is_not_fetched_again(world: World, tmp_path: Path):
    large = world.remote.commit("Large")
    world.arrive(large)
    small = Mirror(tmp_path / "small", world.repository.url, RepositorySettings(max_mirror_gb=1e-6))
    world.pull_requests.build(small, world.repository, Heads({}, "main"), world.change(large))
    assert world.check() == []


def test_a_later_head_makes_one_that_waits_moot(world: World):
    late = world.remote.commit("Late")
    world.report(late)
    world.report(late, action="labeled")
    assert world.check() == []
    newer, other = world.remote.commit("Newer"), world.remote.commit("Other")
    world.arrive(newer)
    world.arrive(other, 2)
    world.report(other, 2)
    assert world.check() == [other]
    assert world.reported().processed_at is None
    world.report(newer, action="synchronize")
    assert world.check() == [other, newer]
    assert [world.reported(each).processed_at for each in (0, 1)] == [world.clock.now()] * 2
    world.clock.advance(86_400)
    assert world.check() == [other, newer]


def test_a_closed_pull_request_is_not_waited_for(world: World):
    late = world.remote.commit("Late")
    world.report(late)
    assert world.check() == []
    world.report(late, action="closed")
    world.check()
    assert world.reported().processed_at is not None


def test_pull_requests_beyond_their_bound_are_built_later(world: World):
    world.storage.build_room.settings = BuildSettings(max_unfinished=2)
    heads = [world.remote.commit(f"Change {number}") for number in range(2)]
    for number, head in enumerate(heads, 1):
        world.arrive(head, number)
        world.report(head, number)
    why = "0 builds: it waits, because 1 builds of pull requests from forks of the organization have not ended, of 1"
    assert world.check() == heads[:1]
    waits = world.reported(1)
    assert (waits.processed_at, str(waits.last_error)[: len(why)]) == (None, why)
    told = world.storage.push_outcomes.latest(world.repository.id, 10)
    assert [(each.pull_request, each.outcome[: len(why)]) for each in told if "waits, because" in each.outcome] == [
        (2, why)
    ]
    world.report(heads[0], 1, "closed")
    assert world.check() == heads[:1]
    (closed,) = world.storage.builds.to_cancel()
    world.storage.builds.move(closed, BuildState.SCHEDULED, BuildState.CANCELED)
    world.clock.advance(10)
    assert world.check() == heads
