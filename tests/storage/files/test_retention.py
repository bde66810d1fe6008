from __future__ import annotations

from itertools import pairwise

import pytest

from storage import (
    Annotation,
    AnnotationLevel,
    Build,
    JobOutputs,
    JobState,
    JobSummary,
    KeptFiles,
    NewCacheEntry,
    Storage,
)
from tests.clock import ManualClock
from tests.storage.world import World


def _finished(world: World, *outputs: bytes) -> Build:
    """Make a finished build whose one job wrote a log, one output for each attempt."""
    build = world.build()
    job = world.job(build)
    for attempt, output in enumerate(outputs, start=1):
        with world.storage.logs.writer(build.uuid, job.uuid, attempt) as log:
            log.output(output)
    world.finish(job, None, frm=JobState.SCHEDULED)
    world.finish_build(build)
    return _now(world, build)


def _now(world: World, build: Build) -> Build:
    found = world.storage.builds.get(build.id)
    assert found is not None
    return found


def _kept(storage: Storage) -> list[KeptFiles]:
    storage.log_retention.measure()
    return list(storage.log_retention.oldest_first())


def _text(storage: Storage, world: World, build: Build) -> bytes:
    return storage.logs.reader(build.uuid, world.job(build).uuid).read(0, 100)


def test_only_logs_of_finished_builds_are_measured(storage: Storage, world: World, clock: ManualClock):
    running = world.build()
    with storage.logs.writer(running.uuid, world.job(running).uuid, 1) as log:
        log.output(b"still going")
    first = _finished(world, b"x" * 1000, b"y" * 500)
    clock.advance(seconds=1)
    second = _finished(world)

    kept = _kept(storage)

    assert [each.build_uuid for each in kept] == [first.uuid, second.uuid]
    assert kept[0].finished_at == first.finished_at
    index_bytes = 2 * 32
    assert [each.bytes for each in kept] == [1500 + index_bytes, 0]
    assert storage.log_retention.bytes() == 1500 + index_bytes


def test_a_log_is_measured_once(storage: Storage, world: World):
    build = _finished(world, b"x" * 1000)
    (before,) = _kept(storage)
    with storage.logs.writer(build.uuid, world.job(build).uuid, 2) as log:
        log.output(b"late")
    assert _kept(storage) == [before]


def test_an_expired_log_is_gone_and_its_build_says_since_when(storage: Storage, world: World, clock: ManualClock):
    going, staying = _finished(world, b"going"), _finished(world, b"staying")
    now = clock.advance(days=1)
    storage.log_retention.expire(_kept(storage)[:1])

    assert (_text(storage, world, going), _text(storage, world, staying)) == (b"", b"staying")
    assert (_now(world, going).logs_expired_at, _now(world, staying).logs_expired_at) == (now, None)
    assert list(storage.logs.builds()) == [staying.uuid]
    assert [each.build_uuid for each in _kept(storage)] == [staying.uuid]
    assert storage.log_retention.bytes() == _kept(storage)[0].bytes


def test_outputs_go_with_the_log_unless_their_disk_is_cached(storage: Storage, world: World):
    going, cached, staying = builds = [_finished(world, b"log") for _ in range(3)]
    for build in builds:
        storage.told.store_outputs(JobOutputs(world.job(build).id, build.id, {"V": "1"}, None))
    storage.snapshots.add("disk", world.job(cached).id, "sandbox")
    assert storage.cache.store(NewCacheEntry("name", cached.pipeline_id, "k", "debian:12", "disk"))

    def left() -> list[Build]:
        storage.log_retention.finish_expiring()
        return [each for each in builds if storage.told.outputs(world.job(each).id) is not None]

    assert left() == [going, cached, staying]
    storage.log_retention.expire(_kept(storage)[:2])
    assert left() == [cached, staying]
    storage.cache.drop(storage.cache.entries())
    assert left() == [staying]


def test_summaries_and_annotations_go_with_the_log(storage: Storage, world: World):
    going, staying = builds = [_finished(world, b"log") for _ in range(2)]
    for build in builds:
        job_id = world.job(build).id
        storage.told.store_summary(JobSummary(job_id, build.id, "# Done", is_cut=False))
        storage.told.store_annotations(job_id, build.id, [Annotation(AnnotationLevel.NOTICE, "a word")])
    storage.log_retention.expire(_kept(storage)[:1])
    for listed in (storage.told.summaries, storage.told.annotations):
        assert [len(listed(build.id, 9).rows) for build in (going, staying)] == [0, 1]


def test_a_removal_that_a_crash_cut_short_is_finished(storage: Storage, world: World, monkeypatch: pytest.MonkeyPatch):
    build = _finished(world, b"going")
    with monkeypatch.context() as crashing:
        crashing.setattr(storage.logs, "remove", _crash)
        with pytest.raises(ConnectionAbortedError):
            storage.log_retention.expire(_kept(storage))
    assert _now(world, build).logs_expired_at is not None
    assert _text(storage, world, build) == b"going"

    for _ in range(2):
        storage.log_retention.finish_expiring()
    assert list(storage.logs.builds()) == []
    assert _kept(storage) == []


def _crash(_: str) -> None:
    raise ConnectionAbortedError


def test_builds_are_walked_in_order_while_they_are_removed(storage: Storage, world: World, clock: ManualClock):
    for number in range(1203):
        _finished(world, b"x")
        if number % 7 == 0:
            clock.advance(microseconds=1)
    storage.log_retention.measure()
    walked = []
    for each in storage.log_retention.oldest_first():
        storage.log_retention.expire([each])
        walked.append((each.finished_at, each.build_id))

    assert len(walked) == 1203
    assert all(earlier < later for earlier, later in pairwise(walked))
    assert list(storage.logs.builds()) == []


def test_logs_of_builds_without_a_row_are_orphans(storage: Storage, world: World):
    known = _finished(world, b"known")
    with storage.logs.writer("orphan", "job", 1) as log:
        log.output(b"whose?")
    (storage.directory / "logs" / "file").write_bytes(b"not ours")

    assert storage.log_retention.remove_orphans() == ["orphan"]
    assert storage.log_retention.remove_orphans() == []
    assert list(storage.logs.builds()) == [known.uuid]
    assert (storage.directory / "logs" / "file").exists()
