"""Pull requests that were open before their repository was connected: each is built once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.source_hosts.host import FOUND_OPEN, HostError
from tests.actors.repositories.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Give a repository that was connected by its path, and is connected at its host then."""
    world = World(tmp_path)
    world.check()
    world.connect_at_host()
    yield world
    world.storage.close()


def test_what_was_open_is_built_once_for_each_head(world: World):
    first, second = world.remote.commit("First"), world.remote.commit("Second")
    world.arrive(first, 1)
    world.arrive(second, 2)
    world.host.open = [world.change(second, 2, FOUND_OPEN), world.change(first, 1, FOUND_OPEN)]
    world.report(first, 1, "synchronize")
    assert world.check() == [first, second]
    world.clock.advance(86_400)
    world.report(second, 2, "reopened")
    assert world.check() == [first, second]


def test_a_pull_request_that_opens_later_is_left_to_its_report(world: World):
    assert world.check() == []
    commit = world.remote.commit("Later")
    world.arrive(commit)
    world.host.open = [world.change(commit, 1, FOUND_OPEN)]
    world.clock.advance(86_400)
    assert world.check() == []


def test_what_was_open_is_asked_for_until_the_host_answers(world: World):
    """Pushes and reported pull requests are built meanwhile."""
    reported, open_before = world.remote.commit("Reported"), world.remote.commit("Open")
    world.arrive(reported, 1)
    world.arrive(open_before, 2)
    world.report(reported)
    world.host.open = HostError("the host answers with 503")
    with pytest.raises(HostError):
        world.check()
    assert (world.built(), world.reported().processed_at is None) == ([reported], False)
    world.host.open = [world.change(open_before, 2, FOUND_OPEN)]
    world.clock.advance(86_400)
    assert world.check() == [reported, open_before]


def test_a_head_that_is_gone_keeps_no_other_from_its_build(world: World):
    commit = world.remote.commit("Open")
    world.arrive(commit, 2)
    world.host.open = [world.change(commit, 2, FOUND_OPEN), world.change("c0ffee" * 6 + "c0ff", 1, FOUND_OPEN)]
    assert world.check() == [commit]
    outcomes = world.storage.push_outcomes.latest(world.repository.id, 2)
    assert "0 builds: pull request 1 of" in outcomes[1].outcome


def test_one_from_a_fork_waits_for_the_first_pipeline(world: World):
    """A fork makes no pipeline, and a repository whose heads are not built has none when it is connected."""
    world.storage.pipelines.delete(world.pipeline.id)
    commit = world.remote.commit("Open")
    world.arrive(commit)
    world.host.open = [world.change(commit, 1, FOUND_OPEN)]
    assert world.check() == []
    world.pipeline = world.declare()
    world.clock.advance(86_400)
    assert world.check() == [commit]
