from __future__ import annotations

from storage import BuildState, Snapshot, Storage
from tests.clock import ManualClock
from tests.storage.world import World


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
