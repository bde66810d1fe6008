from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from storage import Build, Job, JobState, NewArtifact, Outcome, Storage
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World


def leave(storage: Storage, build: Build, job: Job, **files: bytes) -> list[NewArtifact]:
    found = [storage.artifacts.files.write(build.uuid, path, [content]) for path, content in files.items()]
    storage.artifacts.store(build, job, found)
    return found


def left(storage: Storage, job: Job) -> dict[str, bytes]:
    return {
        artifact.path: storage.artifacts.path(artifact).read_bytes() for artifact in storage.artifacts.of_job(job.id)
    }


def on_disk(storage: Storage, build: Build) -> list[Path]:
    folder = storage.directory / "artifacts" / build.uuid
    return list(folder.iterdir()) if folder.exists() else []


def finish(world: World, build: Build) -> None:
    for job in world.jobs(build):
        world.finish(job, None, frm=job.state)
    world.finish_build(build)


def test_what_a_job_left_is_there_with_its_size_and_digest(storage: Storage, world: World, clock: ManualClock):
    build = world.build()
    job = world.job(build)
    new = storage.artifacts.files.write(build.uuid, "dist/a.html", iter([b"he", b"", b"llo"]))
    storage.artifacts.store(build, job, [new])

    (artifact,) = storage.artifacts.of_job(job.id)
    assert (artifact.path, artifact.filename, artifact.mime_type) == ("dist/a.html", "a.html", "text/html")
    assert (artifact.file_size, artifact.sha256) == (5, hashlib.sha256(b"hello").hexdigest())
    assert (artifact.uuid, artifact.job_uuid, artifact.build_uuid) == (new.uuid, job.uuid, build.uuid)
    assert artifact.created_at == clock.now()
    assert storage.artifacts.find(build.id, artifact.uuid) == artifact
    assert left(storage, job) == {"dist/a.html": b"hello"}


def test_a_file_that_cannot_be_written_to_its_end_leaves_nothing(storage: Storage, world: World):
    def torn() -> Iterator[bytes]:
        yield b"half"
        raise OSError("no more")

    build = world.build()
    with pytest.raises(OSError, match="no more"):
        storage.artifacts.files.write(build.uuid, "f", torn())
    assert on_disk(storage, build) == []


def test_a_second_collection_replaces_the_first(storage: Storage, world: World):
    """One file is left for each path."""
    build = world.build()
    job = world.job(build)
    leave(storage, build, job, a=b"1", b=b"2")
    leave(storage, build, job, a=b"333")

    assert left(storage, job) == {"a": b"333"}
    assert len(on_disk(storage, build)) == 1
    assert storage.artifact_retention.bytes() == 3


def test_what_is_discarded_is_gone_and_costs_nothing(storage: Storage, world: World):
    build = world.build(new_job("one"), new_job("two"))
    one, two = world.jobs(build)
    leave(storage, build, one, a=b"1")
    leave(storage, build, two, a=b"22")
    storage.artifacts.discard(build, one)
    storage.artifacts.discard(build, one)

    assert left(storage, one) == {}
    assert left(storage, two) == {"a": b"22"}
    assert len(on_disk(storage, build)) == 1
    assert storage.artifact_retention.bytes() == 2


def test_a_collection_of_nothing_is_known_as_done(storage: Storage, world: World, clock: ManualClock):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    assert storage.attempts.of_job(job.id)[-1].collected_at is None
    storage.artifacts.store(build, job, [])
    assert storage.attempts.of_job(job.id)[-1].collected_at == clock.now()

    world.storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    world.assign(world.job(build))
    assert storage.attempts.of_job(job.id)[-1].collected_at is None


def test_a_job_gets_the_artifacts_of_another_and_both_stay(storage: Storage, world: World):
    first, second = world.build(), world.build()
    leave(storage, first, world.job(first), a=b"same")
    leave(storage, second, world.job(second), of_an_attempt_before=b"other")

    storage.artifacts.inherit(world.job(first).id, world.job(second).id)
    assert left(storage, world.job(second)) == {"a": b"same"}
    assert storage.artifact_retention.remove_orphans(world.clock.now() + timedelta(days=36500)) == 1
    assert [path.stat().st_nlink for path in on_disk(storage, second)] == [2]

    finish(world, first)
    storage.artifact_retention.expire(storage.artifact_retention.oldest_first())
    assert on_disk(storage, first) == []
    assert left(storage, world.job(second)) == {"a": b"same"}


def test_artifacts_are_not_given_in_part(storage: Storage, world: World):
    first, second = world.build(), world.build()
    leave(storage, first, world.job(first), a=b"kept", b=b"lost")
    assert storage.artifacts.complete(world.job(first).id)
    storage.artifacts.path(storage.artifacts.of_job(world.job(first).id)[1]).unlink()
    assert not storage.artifacts.complete(world.job(first).id)
    with pytest.raises(FileNotFoundError):
        storage.artifacts.inherit(world.job(first).id, world.job(second).id)
    assert left(storage, world.job(second)) == {}


def test_inheriting_is_part_of_a_transaction_that_fails(storage: Storage, database: Database, world: World):
    first, second = world.build(), world.build()
    leave(storage, first, world.job(first), a=b"same")

    def inherit_and_fail() -> None:
        with database.write():
            storage.artifacts.inherit(world.job(first).id, world.job(second).id)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        inherit_and_fail()

    assert storage.artifacts.of_job(world.job(second).id) == []
    assert storage.artifact_retention.remove_orphans(world.clock.now() + timedelta(days=36500)) == 1
    assert on_disk(storage, second) == []
    assert left(storage, world.job(first)) == {"a": b"same"}


def test_a_job_without_artifacts_has_none_to_inherit(storage: Storage, world: World):
    first, second = world.build(), world.build()
    storage.artifacts.inherit(world.job(first).id, world.job(second).id)
    assert storage.artifacts.of_job(world.job(second).id) == []


def test_finished_builds_artifacts_are_known_oldest_first_and_go(storage: Storage, world: World, clock: ManualClock):
    running, first, second, none = (world.build() for _ in range(4))
    for build, content in ((running, b"xxx"), (second, b"yy"), (first, b"z")):
        leave(storage, build, world.job(build), f=content)
    for build in (first, second, none):
        clock.advance(seconds=1)
        finish(world, build)

    kept = list(storage.artifact_retention.oldest_first())
    assert [(each.build_uuid, each.bytes) for each in kept] == [(first.uuid, 1), (second.uuid, 2)]
    assert storage.artifact_retention.bytes() == 6

    storage.artifact_retention.expire(kept[:1])
    assert on_disk(storage, first) == []
    assert storage.artifacts.of_job(world.job(first).id) == []
    assert storage.artifacts.expired_at(first.id) == clock.now()
    assert storage.artifacts.expired_at(second.id) is None
    assert [each.build_uuid for each in storage.artifact_retention.oldest_first()] == [second.uuid]
    assert left(storage, world.job(running)) == {"f": b"xxx"}


def test_what_a_dead_process_began_to_expire_is_finished(
    storage: Storage, world: World, monkeypatch: pytest.MonkeyPatch
):
    build = world.build()
    leave(storage, build, world.job(build), f=b"x")
    finish(world, build)

    def die(_uuid: str) -> None:
        raise KeyboardInterrupt

    kept = list(storage.artifact_retention.oldest_first())
    with monkeypatch.context() as patched:
        patched.setattr(storage.artifacts.files, "remove_build", die)
        with pytest.raises(KeyboardInterrupt):
            storage.artifact_retention.expire(kept)
    assert storage.artifacts.expired_at(build.id) is not None
    assert len(on_disk(storage, build)) == 1

    storage.artifact_retention.finish_expiring()
    assert on_disk(storage, build) == []
    assert storage.artifacts.of_job(world.job(build).id) == []


def test_only_old_files_without_a_row_are_removed(storage: Storage, world: World, clock: ManualClock):
    build = world.build()
    leave(storage, build, world.job(build), f=b"x")
    storage.artifacts.files.write(build.uuid, "orphan", [b"y"])
    storage.artifacts.files.write("0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e", "of no build", [b"z"])

    assert storage.artifact_retention.remove_orphans(clock.now() - timedelta(days=36500)) == 0
    assert storage.artifact_retention.remove_orphans(clock.now() + timedelta(days=36500)) == 2
    assert left(storage, world.job(build)) == {"f": b"x"}
    assert len(on_disk(storage, build)) == 1
