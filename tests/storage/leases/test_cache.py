from __future__ import annotations

import pytest

from storage import Build, BuildState, CacheEntry, CacheName, Job, JobState, LogWriter, NewJob, Storage
from storage.files.log_index import LogKind
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import BUILDS_IN, World


def _cacheable(key: str | None = "k", **fields: object) -> NewJob:
    return new_job("deps", cache_policy="forever", cache_key=key, **fields)


def _name(world: World, key: str = "k", image: str = "debian:12", provider: str = "sandbox") -> CacheName:
    return CacheName(world.pipeline.id, image, key, provider)


def _store(storage: Storage, world: World, snapshot: str = "s", key: str = "k", image: str = "debian:12") -> CacheEntry:
    """Store the disk of a build, then end the build."""
    maker = world.build(_cacheable(key))
    storage.snapshots.add(snapshot, world.job(maker).id, "sandbox")
    assert storage.cache.store(_name(world, key, image), snapshot)
    world.finish_build(maker)
    entry = storage.cache.find(_name(world, key, image))
    assert entry is not None
    return entry


def _hit(storage: Storage, build: Build, job: Job, entry: CacheEntry) -> bool:
    return storage.cache.hit(entry, job, JobState.PASSED, build.uuid, "cache hit")


def test_an_entry_is_found_by_its_whole_name_only(storage: Storage, world: World):
    entry = _store(storage, world)
    assert (entry.snapshot, entry.job_name, entry.build_number, entry.hits) == ("s", "deps", 1, 0)
    other = world.other_pipeline("Other")
    of_others = _name(world, key="l"), _name(world, image="debian:13"), _name(world, provider="qemu")
    for name in (*of_others, CacheName(other.id, "debian:12", "k", "sandbox")):
        assert storage.cache.find(name) is None


def test_of_two_that_store_under_one_name_the_first_does(storage: Storage, world: World):
    entry = _store(storage, world)
    late = world.build(_cacheable())
    storage.snapshots.add("late", world.job(late).id, "sandbox")
    assert not storage.cache.store(entry.name, "late")
    assert storage.cache.find(entry.name) == entry
    world.finish_build(late)
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == ["late"]


def test_a_disk_that_is_gone_is_not_stored(storage: Storage, world: World):
    assert not storage.cache.store(_name(world), "gone")
    assert storage.cache.entries() == []


def test_a_hit_passes_the_job_with_the_disk_and_a_notice(storage: Storage, world: World, clock: ManualClock):
    entry = _store(storage, world)
    build = world.build(_cacheable())
    used_at = clock.advance(minutes=5)
    assert _hit(storage, build, world.job(build), entry)
    job = world.job(build)
    assert (job.state, job.cache_hit, job.attempt, job.started_at, job.exit_code) == (
        JobState.PASSED,
        True,
        0,
        None,
        None,
    )
    disk = storage.snapshots.of_job(job.id)
    assert disk is not None
    assert disk.name == "s"
    (chunk,) = storage.logs.reader(build.uuid, job.uuid).chunks()
    assert (chunk.kind, chunk.content) == (LogKind.NOTICE, b"cache hit\n")
    kept = storage.cache.find(entry.name)
    assert kept is not None
    assert (kept.hits, kept.last_used_at) == (1, used_at)


def test_a_hit_is_noted_once_after_a_crash_before_the_commit(
    storage: Storage, world: World, monkeypatch: pytest.MonkeyPatch
):
    entry = _store(storage, world)
    build = world.build(_cacheable())
    notice = LogWriter.notice

    def dies(log: LogWriter, text: str) -> None:
        notice(log, text)
        raise RuntimeError("killed")

    monkeypatch.setattr(LogWriter, "notice", dies)
    with pytest.raises(RuntimeError):
        _hit(storage, build, world.job(build), entry)
    monkeypatch.undo()
    assert world.state(world.job(build)) is JobState.SCHEDULED
    assert _hit(storage, build, world.job(build), entry)
    log = storage.logs.reader(build.uuid, world.job(build).uuid)
    assert log.read(0, log.size()) == b"cache hit\n"


def test_a_hit_costs_nothing(storage: Storage, world: World):
    entry = _store(storage, world)
    build = world.build(_cacheable())
    assert _hit(storage, build, world.job(build), entry)
    assert storage.attempts.of_job(world.job(build).id) == []
    assert storage.ledger.page(world.pipeline.organization_id, 10, None).rows == ()
    assert storage.ledger.verify() == []


def test_a_hit_after_another_change_of_the_job_does_nothing(storage: Storage, world: World):
    entry = _store(storage, world)
    build = world.build(_cacheable())
    job = world.job(build)
    assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.CANCELED)
    assert not _hit(storage, build, job, entry)
    assert world.state(job) is JobState.CANCELED
    assert storage.snapshots.of_job(job.id) is None
    assert not storage.logs.reader(build.uuid, job.uuid).exists()
    assert storage.cache.find(entry.name) == entry


def test_a_dropped_entry_is_not_a_hit(storage: Storage, world: World):
    entry = _store(storage, world)
    build = world.build(_cacheable())
    storage.cache.drop([entry])
    storage.cache.drop([entry])
    assert not _hit(storage, build, world.job(build), entry)
    assert world.state(world.job(build)) is JobState.SCHEDULED


def test_a_log_that_cannot_be_written_costs_the_notice_alone(
    storage: Storage, world: World, monkeypatch: pytest.MonkeyPatch
):
    entry = _store(storage, world)
    build = world.build(_cacheable())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.logs, "writer", full)
    assert _hit(storage, build, world.job(build), entry)
    assert world.state(world.job(build)) is JobState.PASSED


def test_a_cached_disk_is_needed_while_a_build_uses_it(storage: Storage, world: World):
    """It outlives the build that made it."""
    entry = _store(storage, world)
    assert storage.snapshots.unneeded() == []
    build = world.build(_cacheable())
    assert _hit(storage, build, world.job(build), entry)
    storage.cache.drop([entry])
    assert storage.snapshots.unneeded() == []
    world.finish_build(build)
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == ["s"]


def test_an_entry_goes_with_its_snapshot(storage: Storage, world: World):
    entry = _store(storage, world)
    storage.snapshots.remove("s")
    assert storage.cache.find(entry.name) is None


def test_entries_are_listed_longest_unused_first_by_owner(storage: Storage, world: World, clock: ManualClock):
    """The list is of an organization, a pipeline or all."""
    first = _store(storage, world, "a", "a")
    clock.advance(seconds=1)
    _store(storage, world, "b", "b")
    clock.advance(seconds=1)
    build = world.build(_cacheable("a"))
    assert _hit(storage, build, world.job(build), first)
    assert [entry.snapshot for entry in storage.cache.entries()] == ["b", "a"]
    assert len(storage.cache.entries(organization="acme")) == 2
    assert len(storage.cache.entries("acme", "web")) == 2
    assert storage.cache.entries(organization="other") == storage.cache.entries(pipeline="other") == []


def test_a_build_may_hit_if_a_scheduled_job_has_a_stored_key(storage: Storage, world: World):
    _store(storage, world, key="k")
    may, other = world.build(_cacheable("k")), world.build(_cacheable("l"))
    pending = world.build(new_job(), _cacheable("k", depends_on=((0, BUILDS_IN, False),)))
    none = world.build(new_job())
    foreign = world.build(_cacheable("k"), pipeline=world.other_pipeline("Other"))
    assert [storage.cache.may_hit(build.id) for build in (may, other, pending, none, foreign)] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert storage.cache.begun() == [may.id]


def test_a_build_that_a_crash_left_after_a_hit_has_begun(storage: Storage, world: World):
    entry = _store(storage, world)
    build = world.build(_cacheable(), new_job("child", (0, BUILDS_IN, False)))
    assert _hit(storage, build, world.job(build), entry)
    assert storage.cache.begun() == [build.id]
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
    assert storage.cache.begun() == []


def test_a_hit_without_its_artifacts_does_not_pass_the_job(
    storage: Storage, world: World, monkeypatch: pytest.MonkeyPatch
):
    entry = _store(storage, world)
    build = world.build(_cacheable(artifacts=("*",)))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.artifacts, "inherit", full)
    assert not _hit(storage, build, world.job(build), entry)
    assert world.state(world.job(build)) is JobState.SCHEDULED
    assert storage.snapshots.of_job(world.job(build).id) is None
    assert storage.cache.find(entry.name) == entry
