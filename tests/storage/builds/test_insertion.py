"""New builds: idempotency keys, bounds, and disks that do not sync."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage import (
    Build,
    BuildSettings,
    BuildState,
    DatabaseUnavailable,
    KeyUsed,
    NewBuild,
    Pipeline,
    RequestKey,
    Storage,
    TooManyBuilds,
    User,
)
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.held_disk import HeldDisk
from tests.records import new_job, new_pipeline
from tests.state import new_storage
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


def test_a_build_that_may_be_stored_keeps_its_archive(storage: Storage, monkeypatch: pytest.MonkeyPatch):
    """Its transaction is committed, and the disk did not say that it has it."""
    pipeline = new_pipeline(storage)
    HeldDisk(monkeypatch).failure = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(DatabaseUnavailable, match="check the disk"):
        storage.builds.create(pipeline, NewBuild("main", "c0ffee", source_archive=b"archive"), (new_job(),))
    build = storage.builds.by_number(pipeline.id, 1)
    assert build is not None
    assert storage.sources.path(build.uuid).read_bytes() == b"archive"


class Rooms:
    """A storage whose organizations may have three builds that have not ended, with 1 MiB of sources."""

    def __init__(self, storage: Storage, clock: ManualClock) -> None:
        self.storage, self.clock = storage, clock
        self.room = storage.build_room
        self.room.settings = BuildSettings(max_unfinished=3, max_source_gb=1 / 1024)
        self.acme, self.other = new_pipeline(storage), new_pipeline(storage, "Other", "bea@example.org")

    def build(self, **fields: Any) -> Build:
        return self.storage.builds.create_unplanned(self.acme, NewBuild("main", "c0ffee", **fields))

    def end(self, build: Build) -> None:
        self.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)

    def lack(self, *, from_fork: bool = False) -> str:
        """Return why there is no room for a build; nothing if there is."""
        self.room.require(self.other.organization_id)
        try:
            self.room.require(self.acme.organization_id, from_fork=from_fork)
        except TooManyBuilds as error:
            return str(error)
        return ""


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    clock = ManualClock()
    storage = new_storage(tmp_path, clock)
    yield Rooms(storage, clock)
    storage.close()


def test_builds_are_counted_until_they_end(rooms: Rooms):
    builds = [rooms.build() for _ in range(2)]
    assert rooms.lack() == ""
    builds.append(rooms.build())
    assert rooms.lack() == "3 builds of the organization have not ended, of 3 at most"
    rooms.end(builds[1])
    assert rooms.lack() == ""


def test_builds_that_wait_are_counted_once_a_second(rooms: Rooms, monkeypatch: pytest.MonkeyPatch):
    """Each new build would cost the more, the more wait."""
    rooms.room.settings = BuildSettings(max_unfinished=6, max_source_gb=1)
    counted: list[object] = []
    execute = Database.execute

    def noted(database: Database, sql: str, slots: Mapping[str, Any] | None = None) -> object:
        if "COUNT(" in sql and slots is not None:
            counted.append(slots["organization_id"])
        return execute(database, sql, slots)

    monkeypatch.setattr(Database, "execute", noted)
    builds = []
    for number in range(6):
        assert rooms.lack() == ""
        builds.append(rooms.build(source_archive=b"-" * number))
    acme, other = rooms.acme.organization_id, rooms.other.organization_id
    assert counted == [other, acme]
    assert rooms.lack() == "6 builds of the organization have not ended, of 6 at most"
    rooms.end(builds[0])
    assert rooms.lack() == ""
    rooms.clock.advance(seconds=1)
    counted.clear()
    assert rooms.lack() == ""
    assert counted == [other, acme]


def test_sources_are_counted_until_their_builds_end(rooms: Rooms):
    first = rooms.build(source_archive=b"-" * 2**20)
    assert rooms.lack() == (
        "the sources of builds of the organization that have not ended take 0.0 GB, of 0.000976562 GB at most"
    )
    assert not rooms.room.has_source_room(rooms.acme.organization_id)
    rooms.end(first)
    assert rooms.lack() == ""
    assert rooms.room.has_source_room(rooms.acme.organization_id)


def test_a_source_that_builds_share_counts_once(rooms: Rooms):
    first = rooms.build(source_archive=b"-" * (2**20 - 1))
    rooms.build(source_of=first.uuid)
    assert rooms.lack() == ""


def test_builds_from_forks_leave_half_to_others(rooms: Rooms):
    rooms.room.settings = BuildSettings(max_unfinished=4, max_source_gb=1 / 1024)
    rooms.build(from_fork=True)
    assert rooms.lack(from_fork=True) == ""
    rooms.build(from_fork=True)
    assert (
        rooms.lack(from_fork=True)
        == "2 builds of pull requests from forks of the organization have not ended, of 2 at most"
    )
    assert rooms.lack() == ""
