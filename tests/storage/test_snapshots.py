from __future__ import annotations

from storage import BuildState, Snapshot, Storage
from tests.storage.world import HandClock, World


def test_snapshots_are_found_by_job_until_they_are_removed(storage: Storage, world: World, clock: HandClock):
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


def test_a_snapshot_that_is_noted_again_is_noted_once(storage: Storage, world: World, clock: HandClock):
    job = world.job(world.build())
    storage.snapshots.add("s", job.id, "sandbox")
    later = clock.turn(seconds=1)
    storage.snapshots.add("s", job.id, "sandbox")
    assert storage.snapshots.all() == [Snapshot("s", job.id, "sandbox", later)]


def test_those_of_finished_builds_are_told_apart(storage: Storage, world: World):
    finished, running = world.build(), world.build()
    for build in (finished, running):
        storage.snapshots.add(build.uuid, world.job(build).id, "sandbox")
    assert storage.snapshots.of_finished_builds() == []
    storage.builds.move(finished.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert [snapshot.name for snapshot in storage.snapshots.of_finished_builds()] == [finished.uuid]
