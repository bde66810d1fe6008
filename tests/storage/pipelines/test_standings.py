"""Pipelines as they stand, and favourites."""

from __future__ import annotations

from itertools import product

import pytest

from storage import BuildState, Favourite, NewBuild, Pipeline, Standing, Storage
from tests import records

_LETTERS = {"p": BuildState.PASSED, "f": BuildState.FAILED, "c": BuildState.CANCELED, "r": BuildState.RUNNING}


def build(storage: Storage, pipeline: Pipeline, letter: str, branch: str = "main") -> int:
    made = storage.builds.create(pipeline, NewBuild(branch=branch, commit="c0ffee"), [records.new_job()])
    storage.builds.move(made.id, BuildState.SCHEDULED, _LETTERS[letter])
    return made.id


def standing(storage: Storage, pipeline: Pipeline, user_id: int = 0) -> Standing:
    (found,) = storage.standings.of_organization(pipeline.organization_id, user_id, 9)
    return found


@pytest.mark.parametrize("states", ["".join(each) for length in range(4) for each in product("pfcr", repeat=length)])
def test_the_first_failure_since_a_branch_passed_broke_it(storage: Storage, states: str):
    pipeline = records.new_pipeline(storage)
    ids = [build(storage, pipeline, letter) for letter in states]
    other = build(storage, pipeline, "f", branch="other")
    since = states.rpartition("p")[2]
    broken = ids[len(states) - len(since) + since.index("f")] if "f" in since else None
    found = standing(storage, pipeline)
    assert (found.pipeline.id, found.newest_id, found.broken_id) == (pipeline.id, other, broken)


def test_a_pipeline_without_builds_has_none(storage: Storage):
    pipeline = records.new_pipeline(storage)
    found = standing(storage, pipeline)
    assert (found.newest_id, found.broken_id, found.favourite) == (None, None, False)


def test_a_favourite_is_one_persons_and_ends_with_the_account(storage: Storage):
    pipeline = records.new_pipeline(storage)
    (member,) = storage.members.all(pipeline.organization_id)
    user = member.user_id
    stranger = storage.users.create("eve@example.org", "Eve").id
    for each in (user, user, stranger):
        storage.standings.favour(each, pipeline.id, yes=True)
    organization = storage.organizations.by_id(pipeline.organization_id)
    assert organization is not None
    assert storage.standings.favourites(user) == [Favourite(organization.slug, pipeline.slug, pipeline.name)]
    assert storage.standings.favourites(stranger) == []
    assert [standing(storage, pipeline, each).favourite for each in (user, 0)] == [True, False]
    storage.standings.favour(user, pipeline.id, yes=False)
    assert not standing(storage, pipeline, user).favourite
    storage.accounts.close(stranger)
    assert not standing(storage, pipeline, stranger).favourite
