"""Searches for culprits, as rows: when one begins, and what its builds do not count in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storage import (
    BuildState,
    CulpritState,
    JobState,
    NewBuild,
    NewPipeline,
    Pipeline,
    Priority,
    Storage,
    VerifiedEvent,
)
from tests.clock import ManualClock
from tests.culprits import broken, pushed
from tests.records import new_job, new_owner
from tests.state import new_storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return new_storage(tmp_path / "state", ManualClock())


@pytest.fixture
def pipeline(storage: Storage) -> Pipeline:
    owner = new_owner(storage)
    return storage.pipelines.create(owner.organization.id, NewPipeline("web", "Web", "https://x.org/a/b", "main"))


def test_it_begins_when_a_job_fails_that_passed_before(storage: Storage, pipeline: Pipeline):
    build, search = broken(storage, pipeline)
    assert (search.step_key, search.good_commit, search.bad_commit) == ("test", "900d", "bad")
    assert storage.culprits.open() == [search]
    assert storage.culprits.begin(build) is None  # once


def test_it_does_not_begin_while_the_job_was_red_before(storage: Storage, pipeline: Pipeline):
    broken(storage, pipeline)
    assert storage.culprits.begin(pushed(storage, pipeline, "later", JobState.FAILED)) is None


def test_builds_without_the_job_between_do_not_matter(storage: Storage, pipeline: Pipeline):
    pushed(storage, pipeline, "900d", JobState.PASSED)
    pushed(storage, pipeline, "other", JobState.FAILED, key="other")
    pushed(storage, pipeline, "waits", None)
    search = storage.culprits.begin(pushed(storage, pipeline, "bad", JobState.FAILED))
    assert search is not None
    assert search.good_commit == "900d"


@pytest.mark.parametrize(
    "change",
    [
        {"verified_ref": None},
        {"verified_ref": "refs/heads/topic"},
        {"verified_event": VerifiedEvent.PULL_REQUEST},
        {"verified_event": VerifiedEvent.API},
    ],
)
def test_it_is_of_pushes_to_the_default_branch_alone(storage: Storage, pipeline: Pipeline, change: dict[str, object]):
    pushed(storage, pipeline, "900d", JobState.PASSED)
    build = pushed(storage, pipeline, "bad", JobState.FAILED)
    assert storage.culprits.begin(replace(build, **change)) is None  # type: ignore[arg-type]


def test_its_builds_do_not_count_and_let_others_go_first(storage: Storage, pipeline: Pipeline):
    build, search = broken(storage, pipeline)
    new = NewBuild("main", "c1", culprit_search_id=search.id, verified_event=VerifiedEvent.PUSH)
    of_search = storage.builds.create(pipeline, new, [new_job("test")])
    storage.builds.move(of_search.id, BuildState.SCHEDULED, BuildState.PASSED)

    assert of_search.priority is Priority.CULPRIT
    latest = storage.builds.latest(pipeline.id, "main")
    assert latest is not None
    assert latest.id == build.id
    passed = storage.builds.latest_passed(pipeline.id, "main", of_search.number + 1)
    assert passed is not None
    assert passed.commit == "900d"
    (standing,) = storage.standings.of_organization(pipeline.organization_id, 1, 10)
    assert (standing.newest_id, standing.broken_id) == (build.id, build.id)
    assert [each.number for each in storage.build_history.of_pipeline(pipeline.id, 10)] == [2, 1]
    assert [each.number for each in storage.culprits.tests(search.id)] == [3]


def test_it_has_no_group_and_cancels_nobody(storage: Storage, pipeline: Pipeline):
    storage.pipelines.update(pipeline.id, concurrency_group="web")
    grouped = storage.pipelines.by_id(pipeline.id)
    assert grouped is not None
    _, search = broken(storage, grouped)
    new = NewBuild("main", "c1", culprit_search_id=search.id)
    assert storage.builds.create(grouped, new, [new_job("test")]).concurrency_group is None


def test_a_round_counts_once_and_an_end_is_final(storage: Storage, pipeline: Pipeline):
    _, search = broken(storage, pipeline)
    assert storage.culprits.begin_round(search, 0, "it builds")
    storage.builds.create(pipeline, NewBuild("main", "c1", culprit_search_id=search.id), [new_job("test")])
    assert not storage.culprits.begin_round(search, 0, "the same round, by another process")
    canceled = storage.culprits.end(
        search, CulpritState.FOUND, "why", "c1", subject="Break it", author=("Eve", "e@x.org")
    )
    assert canceled is not None
    assert len(canceled) == 1
    assert storage.culprits.end(search, CulpritState.CANCELED, "too late") is None
    ended = storage.culprits.get(search.id)
    assert ended is not None
    assert (ended.state, ended.culprit, ended.author_name) == (CulpritState.FOUND, "c1", "Eve")
    assert storage.culprits.open() == []
    assert not storage.culprits.begin_round(search, 1, "after its end")
