"""Previews as rows: for whom, for how long, and what ends them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from storage import NewOrigin, OriginEvent, Preview, PreviewSpec, Storage
from tests.records import new_job
from tests.storage.world import World

URL = "https://example.org/a/b.git"
_DAY, _MONTH = 24, 720


@pytest.fixture
def repository(storage: Storage, world: World) -> int:
    return storage.repositories.connect(world.pipeline.organization_id, URL, "a/b", 60).id


def added(
    world: World,
    *,
    key: str = "site",
    branch: str = "main",
    spec: PreviewSpec | None = None,
    pull_request: tuple[int, int] | None = None,
    from_fork: bool = False,
) -> Preview:
    """Return the preview of a new build; ``pull_request`` is its repository and number."""
    job = new_job(key, preview=(spec or PreviewSpec(8000, "serve")).document)
    build = world.build(job, branch=branch, from_fork=from_fork)
    if pull_request is not None:
        repository, number = pull_request
        origin = NewOrigin(repository, OriginEvent.PULL_REQUEST, "refs/pull/1/head", pull_request=number)
        world.storage.build_origins.record(build.id, origin, reports=False)
    world.storage.previews.add(build, world.job(build), "a-disk")
    (preview,) = world.storage.previews.of_build(build.id)
    return preview


def why_ended(world: World, *previews: Preview) -> list[str | None]:
    found = [world.storage.previews.by_uuid(each.uuid) for each in previews]
    return [each.why_ended for each in found if each is not None]


def test_one_for_everyone_is_so_but_not_of_forks(world: World):
    """Strangers decide what those show."""
    everyone = PreviewSpec(8000, "serve", everyone=True)
    shown = [added(world), added(world, spec=everyone), added(world, spec=everyone, from_fork=True)]
    assert [each.public for each in shown] == [False, True, False]


@pytest.mark.parametrize(("given", "of_pull_request", "hours"), [(None, 0, _DAY), (None, 1, _MONTH), (2, 1, 2)])
def test_its_time_is_that_of_its_job_or_its_kind(
    world: World, repository: int, given: int | None, of_pull_request: int, hours: int
):
    of = (repository, 7) if of_pull_request else None
    preview = added(world, spec=PreviewSpec(8000, "serve", hours=given), pull_request=of)
    assert preview.until == preview.created_at + timedelta(hours=hours)
    world.clock.advance(hours=hours, seconds=-1)
    world.storage.previews.end_late()
    assert why_ended(world, preview) == [None]
    world.clock.advance(1)
    world.storage.previews.end_late()
    assert why_ended(world, preview) == ["its time is up"]


def test_a_newer_one_of_the_job_and_branch_replaces_it(world: World):
    others = [added(world, branch="dev"), added(world, key="docs")]
    older, newer = added(world), added(world)
    assert why_ended(world, older, newer, *others) == ["a newer build of its branch has another", None, None, None]


def test_it_ends_with_its_pull_request(world: World, repository: int):
    ends, stays, other = (
        added(world, branch="a", pull_request=(repository, 7)),
        added(world, branch="b", pull_request=(repository, 8)),
        added(world, branch="c"),
    )
    world.storage.previews.end_of_pull_request(repository, 7)
    assert why_ended(world, ends, stays, other) == ["the pull request 7 was closed", None, None]
