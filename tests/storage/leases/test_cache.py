from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from storage import (
    Annotation,
    AnnotationLevel,
    Build,
    BuildState,
    CacheEntry,
    Dependency,
    Job,
    JobOutputs,
    JobState,
    LogWriter,
    NewCacheEntry,
    NewJob,
    Snapshot,
    Storage,
)
from storage.database.connection import Database
from storage.database.schema import migrations
from storage.files.log_index import LogKind
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import BUILDS_IN, World


def _cacheable(key: str | None = "k", **fields: object) -> NewJob:
    return new_job("deps", cache_policy="forever", cache_key=key, **fields)


def _new(world: World, snapshot: str = "s", key: str = "k", name: str = "name of s") -> NewCacheEntry:
    return NewCacheEntry(name, world.pipeline.id, key, "debian:12", snapshot)


def _store(storage: Storage, world: World, snapshot: str = "s", key: str = "k") -> CacheEntry:
    """Store the disk of a build, then end the build."""
    maker = world.build(_cacheable(key))
    storage.snapshots.add(snapshot, world.job(maker).id, "sandbox")
    new = _new(world, snapshot, key, f"name of {snapshot}")
    assert storage.cache.store(new)
    world.finish_build(maker)
    entry = storage.cache.find(new.name)
    assert entry is not None
    return entry


def _hit(storage: Storage, build: Build, job: Job, entry: CacheEntry) -> bool:
    return storage.cache.hit(entry, job, JobState.PASSED, build.uuid, "cache hit")


def test_an_entry_is_found_by_its_name_and_not_by_its_key(storage: Storage, world: World):
    entry = _store(storage, world)
    assert (entry.snapshot, entry.job_name, entry.build_number, entry.hits) == ("s", "deps", 1, 0)
    assert (entry.key, entry.image, entry.provider) == ("k", "debian:12", "sandbox")
    assert storage.cache.find("k") is None


def test_of_two_that_store_under_one_name_the_first_does(storage: Storage, world: World):
    entry = _store(storage, world)
    late = world.build(_cacheable())
    storage.snapshots.add("late", world.job(late).id, "sandbox")
    assert not storage.cache.store(_new(world, "late"))
    assert storage.cache.find(entry.name) == entry
    world.finish_build(late)
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == ["late"]


def test_a_disk_that_is_gone_is_not_stored(storage: Storage, world: World):
    assert not storage.cache.store(_new(world, "gone"))
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


def test_disks_under_names_of_earlier_releases_go(storage: Storage, world: World, database: Database):
    """Their names were their keys, which do not tell what ran in them."""
    steps = {step.name[5:]: step.sql for step in migrations()}
    for table in ("attempts", "snapshots"):
        database.execute(f"ALTER TABLE {table} DROP COLUMN cache_name")
    database.execute("DROP TABLE cache_entries")
    database.execute(steps["cache.sql"][steps["cache.sql"].index("CREATE TABLE cache_entries") :])
    maker = world.build(_cacheable())
    database.execute(
        "INSERT INTO snapshots (name, job_id, provider, created_at) VALUES ('s', ?, 'sandbox', 1)",
        (world.job(maker).id,),
    )
    database.execute("INSERT INTO cache_entries VALUES (1, ?, 'debian:12', 'k', 's', 1, 1, 0)", (world.pipeline.id,))
    world.finish_build(maker)

    database.execute(steps["cache_names.sql"])
    assert storage.cache.entries() == []
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == ["s"]


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
    pending = world.build(new_job(), _cacheable("k", depends_on=(Dependency(0, BUILDS_IN, False),)))
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
    assert storage.cache.may_hit_after(may.id - 1) == [may.id]
    assert storage.cache.may_hit_after(may.id) == []
    world.finish_build(may)
    assert storage.cache.may_hit_after(may.id - 1) == []


def test_a_build_that_a_crash_left_after_a_hit_has_begun(storage: Storage, world: World):
    entry = _store(storage, world)
    build = world.build(_cacheable(), new_job("child", (0, BUILDS_IN, False)))
    assert _hit(storage, build, world.job(build), entry)
    assert storage.cache.begun() == [build.id]
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
    assert storage.cache.begun() == []


def _file_gone(storage: Storage, world: World, maker: Build) -> None:
    storage.artifacts.path(storage.artifacts.of_job(world.job(maker).id)[0]).unlink()


def _file_cut_short(storage: Storage, world: World, maker: Build) -> None:
    storage.artifacts.path(storage.artifacts.of_job(world.job(maker).id)[0]).write_bytes(b"")


def _expired(storage: Storage, world: World, maker: Build) -> None:
    storage.artifact_retention.expire(storage.artifact_retention.oldest_first())


def _retry(storage: Storage, world: World, maker: Build) -> Job:
    build = storage.builds.get(maker.id)
    assert build is not None
    job = world.job(build)
    storage.retries.begin(build, BuildState.SCHEDULED, [job], {job.id: JobState.SCHEDULED})
    return world.job(build)


def _later_attempt(storage: Storage, world: World, maker: Build) -> None:
    assert world.assign(_retry(storage, world, maker)) is not None


def _maker(storage: Storage, world: World) -> tuple[Build, CacheEntry]:
    """Pass a build whose job leaves an artifact of 5 bytes, and cache its disk."""
    maker = world.build(_cacheable(artifacts=("*",)))
    lease = world.start(world.job(maker))
    file = storage.artifacts.files.write(maker.uuid, "report.xml", [b"tests"])
    storage.artifacts.store(maker, world.job(maker), [file])
    storage.snapshots.add(lease.uuid, world.job(maker).id, "sandbox")
    assert storage.cache.store(_new(world, lease.uuid))
    assert world.finish(world.job(maker), lease)
    storage.leases.end(lease.id)
    world.finish_build(maker)
    entry = storage.cache.find("name of s")
    assert entry is not None
    return maker, entry


@pytest.mark.parametrize("spoil", [_file_gone, _file_cut_short, _expired, _later_attempt])
def test_a_hit_that_cannot_give_the_artifacts_is_none(
    storage: Storage, world: World, spoil: Callable[[Storage, World, Build], None]
):
    """The entry goes, so that the job runs and leaves another. What promises nothing hits."""
    maker, entry = _maker(storage, world)
    whole, none = world.build(_cacheable(artifacts=("*",))), world.build(_cacheable())
    assert _hit(storage, whole, world.job(whole), entry)

    spoil(storage, world, maker)
    assert _hit(storage, none, world.job(none), entry)
    build = world.build(_cacheable(artifacts=("*",)))
    assert not _hit(storage, build, world.job(build), entry)
    assert world.state(world.job(build)) is JobState.SCHEDULED
    assert storage.cache.find(entry.name) is None
    assert [each.file_size for each in storage.artifacts.of_job(world.job(whole).id)] == [5]


def test_a_job_that_hits_its_own_disk_has_its_artifacts_once(storage: Storage, world: World):
    """A retry runs a job again that passed, if another one builds in its disk."""
    maker, entry = _maker(storage, world)
    before = storage.artifacts.of_job(world.job(maker).id)
    assert _hit(storage, maker, _retry(storage, world, maker), entry)
    assert storage.artifacts.of_job(world.job(maker).id) == before
    assert storage.artifact_retention.bytes() == 5


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


def test_snapshots_are_found_by_job_until_they_are_removed(storage: Storage, world: World, clock: ManualClock):
    job, other = world.job(world.build()), world.job(world.build())
    assert storage.snapshots.of_job(job.id) is None
    storage.snapshots.add("s1", job.id, "sandbox")
    storage.snapshots.add("s2", other.id, "sandbox")
    first = Snapshot("s1", job.id, "sandbox", clock.now())
    assert storage.snapshots.of_job(job.id) == first
    assert [snapshot.name for snapshot in storage.snapshots.all()] == ["s1", "s2"]
    storage.snapshots.remove("s1")
    storage.snapshots.remove("s1")
    assert storage.snapshots.of_job(job.id) is None


def test_a_snapshot_that_is_noted_again_is_noted_once(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    storage.snapshots.add("s", job.id, "sandbox")
    later = clock.advance(seconds=1)
    storage.snapshots.add("s", job.id, "sandbox")
    assert storage.snapshots.all() == [Snapshot("s", job.id, "sandbox", later)]


def test_a_snapshot_is_needed_until_its_build_is_over(storage: Storage, world: World):
    finished, running = world.build(), world.build()
    for build in (finished, running):
        storage.snapshots.add(build.uuid, world.job(build).id, "sandbox")
    assert storage.snapshots.unneeded() == []
    assert storage.snapshots.in_use() == {finished.uuid, running.uuid}
    storage.builds.move(finished.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == [finished.uuid]
    assert storage.snapshots.in_use() == {running.uuid}


def test_the_disk_of_a_job_that_was_given_anothers_is_that_one(storage: Storage, world: World):
    maker, child = world.build(), world.build()
    storage.snapshots.add("s", world.job(maker).id, "sandbox", base="below")
    storage.snapshots.give("s", world.job(child).id)
    found = storage.snapshots.of_job(world.job(child).id)
    assert found is not None
    assert (found.name, found.job_id, found.base) == ("s", world.job(maker).id, "below")


def test_a_snapshot_is_needed_by_an_unfinished_build_with_it(storage: Storage, world: World):
    """This holds after the build that made it has ended."""
    maker, child = world.build(), world.build()
    storage.snapshots.add("s", world.job(maker).id, "sandbox")
    storage.snapshots.give("s", world.job(child).id)
    world.finish_build(maker)
    assert storage.snapshots.unneeded() == []
    world.finish_build(child)
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == ["s"]


def test_what_a_snapshot_takes_is_unknown_until_it_is_measured(storage: Storage, world: World):
    storage.snapshots.add("s", world.job(world.build()).id, "sandbox")
    assert [snapshot.bytes for snapshot in storage.snapshots.all()] == [None]
    storage.snapshots.measured("s", 4096)
    assert [snapshot.bytes for snapshot in storage.snapshots.all()] == [4096]


def test_a_hit_has_the_outputs_of_the_disks_job(storage: Storage, world: World):
    maker, entry = _maker(storage, world)
    made = world.job(maker)
    storage.told.store_outputs(JobOutputs(made.id, maker.id, {"V": "1"}, None))
    build = world.build(_cacheable())
    assert _hit(storage, build, world.job(build), entry)
    assert storage.told.outputs(world.job(build).id) == JobOutputs(world.job(build).id, build.id, {"V": "1"}, None)


def test_a_hit_has_the_annotations_of_the_disks_job_alone(storage: Storage, world: World):
    maker, entry = _maker(storage, world)
    said = Annotation(AnnotationLevel.ERROR, "is wrong", "a.py", 3, 7, "T", "gcc", 12)
    storage.told.store_annotations(world.job(maker).id, maker.id, [said, said])
    build = world.build(_cacheable())
    storage.told.store_annotations(world.job(build).id, build.id, [replace(said, message="of before")])
    assert _hit(storage, build, world.job(build), entry)
    kept = [each.annotation for each in storage.told.annotations(build.id, 9).rows]
    assert kept == [replace(said, log_line=None)] * 2


def test_a_job_that_runs_again_takes_disks_with_outputs_along(storage: Storage, world: World):
    maker, entry = _maker(storage, world)
    job_id = world.job(maker).id
    storage.told.discard(job_id)
    assert storage.cache.find(entry.name) is not None
    storage.told.store_outputs(JobOutputs(job_id, maker.id, {"V": "1"}, None))
    storage.told.discard(job_id)
    assert storage.cache.find(entry.name) is None


def test_a_disk_is_no_hit_with_outputs_of_a_later_attempt(storage: Storage, world: World):
    maker, entry = _maker(storage, world)
    _later_attempt(storage, world, maker)
    storage.told.store_outputs(JobOutputs(world.job(maker).id, maker.id, {"V": "2"}, None))
    build = world.build(_cacheable())
    assert not _hit(storage, build, world.job(build), entry)
    assert storage.cache.find(entry.name) is None
