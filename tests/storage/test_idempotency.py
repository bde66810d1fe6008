from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from storage import Build, BuildState, KeyUsed, NewBuild, Pipeline, RequestKey, Storage, User
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World


@pytest.fixture
def key(user: User, pipeline: Pipeline) -> RequestKey:
    return RequestKey(user.id, pipeline.organization_id, "push-1", bytes(32))


def rows(database: Database) -> int:
    count: int = database.execute("SELECT count(*) FROM idempotency_keys").get
    return count


def test_a_key_leads_to_the_build_that_it_made(storage: Storage, world: World, key: RequestKey):
    assert storage.idempotency_keys.find(key) is None
    build = world.build(key=key)
    use = storage.idempotency_keys.find(key)
    assert use is not None
    assert (use.build_id, use.rejected, use.same_request) == (build.id, False, True)


def test_another_request_under_the_same_key_is_recognized(storage: Storage, world: World, key: RequestKey):
    world.build(key=key)
    use = storage.idempotency_keys.find(replace(key, request_hash=b"x" * 32))
    assert use is not None
    assert not use.same_request


def test_a_rejected_build_uses_its_key_up(storage: Storage, pipeline: Pipeline, key: RequestKey):
    build = storage.builds.create_rejected(pipeline, NewBuild("main", "c0ffee", key=key), "invalid_ir", "no steps")
    use = storage.idempotency_keys.find(key)
    assert use is not None
    assert (use.build_id, use.rejected) == (build.id, True)


def test_a_second_build_under_a_key_is_not_made(storage: Storage, world: World, pipeline: Pipeline, key: RequestKey):
    build = world.build(key=key)
    with pytest.raises(KeyUsed) as refused:
        world.build(key=key, source_archive=b"archive")
    assert refused.value.use.build_id == build.id
    assert storage.pipelines.by_id(pipeline.id).build_count == 1
    assert storage.sources.all() == []
    assert world.build().number == 2


def test_keys_are_of_a_user_and_an_organization(storage: Storage, database: Database, world: World, key: RequestKey):
    world.build(key=key)
    somebody = storage.users.create("bob@example.org", "Bob")
    elsewhere = world.other_pipeline("Other")
    for other in (
        replace(key, user_id=somebody.id),
        replace(key, organization_id=elsewhere.organization_id),
        replace(key, key="PUSH-1"),
    ):
        assert storage.idempotency_keys.find(other) is None
        world.build(key=other)
    assert rows(database) == 4


def test_a_key_is_free_after_a_day_to_the_microsecond(
    storage: Storage, world: World, clock: ManualClock, key: RequestKey
):
    first = world.build(key=key)
    clock.advance(hours=24, microseconds=-1)
    assert storage.idempotency_keys.find(key) is not None
    clock.advance(microseconds=1)
    assert storage.idempotency_keys.find(key) is None
    second = world.build(key=key)
    use = storage.idempotency_keys.find(key)
    assert use is not None
    assert use.build_id == second.id != first.id


def test_rows_that_are_over_go(storage: Storage, database: Database, world: World, clock: ManualClock, key: RequestKey):
    for number in range(3):
        world.build(key=replace(key, key=f"push-{number}"))
    clock.advance(hours=24)
    world.build(key=replace(key, key="push-3"))
    assert rows(database) == 1


def test_a_key_is_free_when_its_pipeline_is_deleted(
    storage: Storage, world: World, pipeline: Pipeline, key: RequestKey
):
    build = world.build(key=key)
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.pipelines.delete(pipeline.id)
    assert storage.idempotency_keys.find(key) is None
    other = world.other_pipeline("Other")
    assert world.build(key=key, pipeline=other).pipeline_id == other.id


def test_of_many_at_once_one_makes_a_build(storage: Storage, pipeline: Pipeline, key: RequestKey):
    ready = threading.Barrier(6)

    def create(_: int) -> Build | int:
        ready.wait()
        try:
            return storage.builds.create(pipeline, NewBuild("main", "c0ffee", key=key), [new_job()])
        except KeyUsed as error:
            return error.use.build_id

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(create, range(6)))
    (build,) = (answer for answer in answers if isinstance(answer, Build))
    assert sorted(answer for answer in answers if isinstance(answer, int)) == [build.id] * 5
    assert storage.pipelines.by_id(pipeline.id).build_count == 1
