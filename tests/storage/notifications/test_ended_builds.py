"""Ends of builds: each is told once, in order, and a retried build ends again."""

from __future__ import annotations

from itertools import count

import pytest

from actors import retry
from storage import Build, BuildState, JobState, NewBuild, NewPipeline, Outcome, Pipeline, Storage, ToldEnd
from tests.clock import ManualClock
from tests.records import new_job, new_owner


@pytest.fixture
def pipeline(storage: Storage) -> Pipeline:
    return storage.pipelines.create(new_owner(storage).organization.id, NewPipeline("web", "Web", "r", "main"))


def ended(storage: Storage, pipeline: Pipeline, state: BuildState, branch: str = "main") -> Build:
    build = storage.builds.create(pipeline, NewBuild(branch, "c0ffee"), [new_job()])
    (job,) = storage.jobs.of_build(build.id)
    storage.jobs.move(job.id, JobState.SCHEDULED, JobState(state.value), Outcome(exit_code=1))
    storage.builds.move(build.id, BuildState.SCHEDULED, state)
    found = storage.builds.get(build.id)
    assert found is not None
    return found


def tell_all(storage: Storage) -> list[int]:
    told = []
    while found := storage.ended_builds.untold(2):
        for each in found:
            build = storage.builds.get(each.build_id)
            assert build is not None
            state = None if build.state is BuildState.CANCELED else build.state
            assert storage.ended_builds.tell(each, state)
            told.append(build.number)
    return told


def test_ends_are_told_once_in_the_order_of_recording(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    first, second = (storage.builds.create_unplanned(pipeline, NewBuild("main", "c0ffee")) for _ in range(2))
    for build in (second, first):
        clock.advance(1)
        storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.builds.create_unplanned(pipeline, NewBuild("main", "c0ffee"))
    (again, *_) = storage.ended_builds.untold(1)
    assert tell_all(storage) == [2, 1]
    assert not storage.ended_builds.tell(again, BuildState.PASSED)
    assert storage.ended_builds.untold(9) == []


def test_canceled_builds_say_nothing_about_a_branch(storage: Storage, pipeline: Pipeline):
    numbers = count()
    for state in (BuildState.FAILED, BuildState.CANCELED):
        ended(storage, pipeline, state)
        next(numbers)
    ended(storage, pipeline, BuildState.PASSED, "other")
    build = ended(storage, pipeline, BuildState.PASSED)
    assert storage.ended_builds.last_told(build) is None
    tell_all(storage)
    following = storage.builds.create_unplanned(pipeline, NewBuild("main", "c0ffee"))
    assert storage.ended_builds.last_told(following) == ToldEnd(4, BuildState.PASSED)


def test_a_retried_build_ends_again(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    build = ended(storage, pipeline, BuildState.FAILED)
    tell_all(storage)
    retry(storage, build)
    assert storage.ended_builds.untold(9) == []
    clock.advance(1)
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert storage.ended_builds.last_told(build) == ToldEnd(1, BuildState.FAILED)
    assert tell_all(storage) == [1]
    assert storage.ended_builds.last_told(build) == ToldEnd(1, BuildState.PASSED)


def test_ends_of_a_deleted_pipeline_can_be_told(storage: Storage, pipeline: Pipeline):
    ended(storage, pipeline, BuildState.FAILED)
    storage.pipelines.delete(pipeline.id)
    (left,) = storage.ended_builds.untold(9)
    assert storage.builds.get(left.build_id) is None
    assert storage.ended_builds.tell(left, None)
