from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import RetentionSettings
from actors.cleanup.retention import Expired, ExpiredTotal, due, expire, preview
from storage import BuildState
from tests.clock import ManualClock
from tests.records import new_pipeline
from tests.state import new_storage
from tests.storage.world import World

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GB = 2**30


@dataclass(frozen=True)
class Log:
    finished_at: datetime
    bytes: int


logs = st.lists(
    st.builds(Log, st.integers(0, 50).map(lambda days: NOW - timedelta(days=days)), st.integers(0, 100)), max_size=30
).map(lambda found: sorted(found, key=lambda log: log.finished_at))


@given(logs, st.integers(0, 50), st.integers(0, 2000))
def test_expired_logs_go_then_the_oldest_until_the_rest_fits(kept: list[Log], days: int, budget: int):
    before = NOW - timedelta(days=days)
    excess = sum(log.bytes for log in kept) - budget
    going = list(due(kept, before, excess))
    staying = list(kept)
    for log in going:
        staying.remove(log)

    assert all(log.finished_at >= before for log in staying)
    assert sum(log.bytes for log in staying) <= budget
    for_room = [log for log in going if log.finished_at >= before]
    assert all(log.bytes for log in for_room)
    if for_room:
        assert sum(log.bytes for log in staying) + for_room[-1].bytes > budget
        assert all(log.finished_at >= for_room[-1].finished_at for log in staying if log.bytes)


@given(logs)
def test_without_an_age_and_a_budget_all_stay(kept: list[Log]):
    assert list(due(kept, None, 0)) == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = ManualClock()
    storage = new_storage(tmp_path / "state", clock)
    yield World(storage, clock, new_pipeline(storage))
    storage.close()


def _finished(world: World, size: int) -> str:
    build = world.build()
    with world.storage.logs.writer(build.uuid, world.job(build).uuid, 1) as log:
        log.output(b"x" * size)
    assert world.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    return build.uuid


def test_logs_go_when_their_builds_finished_so_many_days_ago(world: World):
    old = _finished(world, 100)
    world.clock.advance(days=20)
    young = _finished(world, 100)
    world.clock.advance(days=70, microseconds=1)
    settings = RetentionSettings()

    assert preview(world.storage, settings, world.clock.now()).files["logs"] == ExpiredTotal(1, 132)
    assert set(world.storage.logs.builds()) == {old, young}
    assert expire(world.storage, settings, world.clock.now()).files["logs"] == ExpiredTotal(1, 132)
    assert expire(world.storage, settings, world.clock.now()).files["logs"] == ExpiredTotal()
    assert set(world.storage.logs.builds()) == {young}


def test_an_unfinished_builds_logs_stay_however_old_and_large(world: World):
    build = world.build()
    with world.storage.logs.writer(build.uuid, world.job(build).uuid, 1) as log:
        log.output(b"x" * 5000)
    world.clock.advance(days=1000)

    assert (
        expire(world.storage, RetentionSettings(logs_days=1, logs_gb=1 / GB), world.clock.now()).files["logs"]
        == ExpiredTotal()
    )
    assert list(world.storage.logs.builds()) == [build.uuid]


def test_over_the_budget_the_oldest_go_until_the_others_fit(world: World):
    builds = []
    for _ in range(250):
        builds.append(_finished(world, 968))
        world.clock.advance(seconds=1)
    settings = RetentionSettings(logs_days=0, logs_gb=30_500 / GB)

    assert expire(world.storage, settings, world.clock.now()).files["logs"] == ExpiredTotal(220, 220_000)
    assert set(world.storage.logs.builds()) == set(builds[220:])
    assert world.storage.log_retention.bytes() == 30_000


def test_artifacts_go_by_a_rule_of_their_own(world: World):
    storage, clock = world.storage, world.clock
    builds = []
    for name in ("old", "young"):
        build = world.build()
        job, lease = world.job(build), world.start(world.job(build))
        written = storage.artifacts.files.write(build.uuid, f"{name}.txt", [b"x" * 500])
        storage.artifacts.store(build, job, [written])
        assert world.finish(job, lease)
        assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
        builds.append((build, job))
        clock.advance(days=10)
    settings = RetentionSettings(logs_days=1, artifacts_days=15)

    assert preview(storage, settings, clock.now()).files["artifacts"] == ExpiredTotal(1, 500)
    assert expire(storage, settings, clock.now()) == Expired(
        {"logs": ExpiredTotal(2, 0), "artifacts": ExpiredTotal(1, 500), "sources": ExpiredTotal()}
    )
    assert [[left.path for left in storage.artifacts.of_job(job.id)] for _, job in builds] == [[], ["young.txt"]]
    assert expire(storage, RetentionSettings(artifacts_gb=499 / GB), clock.now()).files["artifacts"] == ExpiredTotal(
        1, 500
    )
    assert expire(storage, RetentionSettings(), clock.now()).files["artifacts"] == ExpiredTotal()
