"""Builds that a newer one of their branch or pull request cancels."""

from __future__ import annotations

from typing import Any

import pytest

from storage import Build, BuildState, NewOrigin, OriginEvent, Repository, Storage
from tests.storage.world import World

MAIN = "refs/heads/main"


@pytest.fixture
def repository(storage: Storage, world: World) -> Repository:
    return storage.repositories.connect(world.pipeline.organization_id, "https://example.org/a/b.git", "a/b", 60)


def pushed(storage: Storage, world: World, repository: Repository, ref: str = MAIN, **fields: Any) -> Build:
    """Add a build of a push, or of a pull request if it has a number."""
    number = fields.pop("number", None)
    event = OriginEvent.PUSH if number is None else OriginEvent.PULL_REQUEST
    origin = NewOrigin(repository.id, fields.pop("event", event), ref, pull_request=number)
    build = world.build(**fields)
    storage.build_origins.record(build.id, origin, reports=False)
    return build


def superseded(storage: Storage, build: Build, *, running: bool = False) -> list[int]:
    origin = storage.build_origins.get(build.id)
    assert origin is not None
    assert origin.repository_id is not None
    new = NewOrigin(origin.repository_id, origin.event, origin.ref, pull_request=origin.pull_request)
    return storage.superseded.cancel_older(build, new, running=running)


def test_older_builds_of_the_branch_that_wait_are_canceled(storage: Storage, world: World, repository: Repository):
    older = [pushed(storage, world, repository) for _ in range(2)]
    newer = pushed(storage, world, repository)
    assert superseded(storage, newer) == [each.id for each in older]
    canceled = storage.builds.get(older[0].id)
    assert canceled is not None
    assert (canceled.cancel_requested, canceled.error_code) == (True, "superseded")
    assert canceled.error_message == f"build {newer.number} is of a newer commit"
    assert storage.builds.to_cancel() == [each.id for each in older]
    assert superseded(storage, newer) == []


def test_builds_that_run_are_canceled_only_if_asked_for(storage: Storage, world: World, repository: Repository):
    runs = pushed(storage, world, repository)
    storage.builds.move(runs.id, BuildState.SCHEDULED, BuildState.RUNNING)
    newer = pushed(storage, world, repository)
    assert superseded(storage, newer) == []
    assert superseded(storage, newer, running=True) == [runs.id]


def test_other_builds_are_not_superseded(storage: Storage, world: World, repository: Repository):
    other = storage.repositories.connect(world.pipeline.organization_id, "https://example.org/c/d.git", "c/d", 60)
    world.build()
    finished = pushed(storage, world, repository)
    storage.builds.move(finished.id, BuildState.SCHEDULED, BuildState.PASSED)
    pushed(storage, world, repository, "refs/heads/dev")
    pushed(storage, world, repository, "refs/tags/main", event=OriginEvent.TAG)
    pushed(storage, world, repository, number=1)
    pushed(storage, world, other)
    pushed(storage, world, repository, pipeline=world.other_pipeline("Other"))
    newer = pushed(storage, world, repository)
    pushed(storage, world, repository)
    assert superseded(storage, newer, running=True) == []


def test_a_tag_supersedes_nothing(storage: Storage, world: World, repository: Repository):
    pushed(storage, world, repository, "refs/tags/v1", event=OriginEvent.TAG)
    newer = pushed(storage, world, repository, "refs/tags/v1", event=OriginEvent.TAG)
    assert superseded(storage, newer, running=True) == []


def test_a_pull_request_supersedes_its_own_builds(storage: Storage, world: World, repository: Repository):
    first = pushed(storage, world, repository, "refs/pull/1/head", number=1)
    pushed(storage, world, repository, "refs/pull/2/head", number=2)
    pushed(storage, world, repository)
    assert superseded(storage, pushed(storage, world, repository, "refs/pull/1/head", number=1)) == [first.id]


def test_closing_a_pull_request_cancels_what_waits(storage: Storage, world: World, repository: Repository):
    runs = pushed(storage, world, repository, number=1)
    storage.builds.move(runs.id, BuildState.SCHEDULED, BuildState.RUNNING)
    waits = [pushed(storage, world, repository, number=1) for _ in range(2)]
    pushed(storage, world, repository, number=2)
    assert storage.superseded.cancel_closed(repository.id, 1) == [each.id for each in waits]
    assert storage.superseded.cancel_closed(repository.id, 1) == []
