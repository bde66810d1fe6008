"""The reaper removes every kind of resource without a row, and spares a job on its parent's disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from actors.vms import Provider, SandboxProvider, VmSpec
from actors.vms.host import IdMap, run_mapped
from storage import Build, DatabaseDamaged, JobState, LeaseState, NewBuild, Shape, Storage
from storage.files import DATABASE
from tests.actors.conftest import Host
from tests.clock import LaterClock
from tests.damage import damage_page
from tests.e2e.pipelines import Graph, one
from tests.memory.provider import MemoryProvider
from tests.state import run_sql
from tests.waiting import until

OLD = timedelta(hours=2)
TICKS = "\n".join(["echo tick; sleep 0.1"] * 1000)


@dataclass(frozen=True)
class Living:
    """A running job on top of another job's disk, in a build with a source archive."""

    host: Host
    build: Build

    @property
    def storage(self) -> Storage:
        return self.host.storage

    @property
    def provider(self) -> Provider:
        return self.host.provider

    @property
    def sandbox(self) -> Path:
        return self.storage.directory / "sandbox"

    def reap(self) -> None:
        """Run one round, now."""
        self.host.reaper().reap()

    def reap_later(self) -> None:
        """Run one round as if two hours had passed."""
        self.host.reaper(LaterClock()).reap()

    def stays(self) -> None:
        """Check that everything of the running job still exists, and that it goes on."""
        (lease,) = self.storage.leases.live()
        assert list(self.provider.list()) == [lease.uuid]
        (snapshot,) = self.storage.snapshots.all()
        assert list(self.provider.snapshots()) == [snapshot.name]
        assert self.storage.sources.path(self.build.uuid).exists()
        assert self.storage.sources.all() == [self.build.uuid]
        assert self.host.job(self.build, "child").state is JobState.RUNNING
        before = len(self.host.log(self.build, "child"))
        until(lambda: len(self.host.log(self.build, "child")) > before, "the job's going on")


@pytest.fixture
def living(host: Host) -> Iterator[Living]:
    build = host.build(Graph().step("parent", "echo 1 > f").step("child", TICKS, builds_in="parent").ir())
    host.storage.sources.store(build.uuid, b"an archive")
    host.says(build, b"tick", "child")
    until(lambda: len(host.storage.leases.live()) == 1, "the end of the parent's lease")
    yield Living(host, build)
    host.engine.cancel(build.id)
    host.finish(build)


def test_what_lives_stays_round_after_round(living: Living):
    for _ in range(3):
        living.reap()
        living.reap_later()
    living.host.reaper().expire()
    living.stays()


@pytest.mark.sandbox
def test_a_round_with_nothing_to_take_starts_no_program(living: Living, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    with monkeypatch.context() as looking:
        looking.setattr("subprocess.Popen.__init__", refuse)
        living.reap()
    living.stays()


def test_vms_that_no_lease_names(living: Living):
    for _ in range(2):
        living.provider.create(VmSpec(str(uuid4()), "debian:12", network=False))
    living.reap()
    living.stays()


def test_nothing_unnamed_goes_while_the_database_is_damaged(living: Living):
    """Its name may be on the page that cannot be read."""
    damage_page(living.storage.directory / DATABASE, "sqlite_autoindex_coupons_1")
    with pytest.raises(DatabaseDamaged):
        living.storage.coupons.redeem("WELCOME-2026", living.build.organization_id)
    vm, build = str(uuid4()), str(uuid4())
    living.provider.create(VmSpec(vm, "debian:12", network=False))
    living.storage.logs.writer(build, str(uuid4()), 1).close()
    living.storage.sources.store(build, b"an archive")
    living.reap_later()
    reaper = living.host.reaper(LaterClock())
    reaper.remove_orphans()
    reaper.sweep()
    reaper.free_disk_space(2**40)
    reaper.expire()
    assert vm in living.provider.list()
    assert build in living.storage.logs.builds()
    assert build in living.storage.sources.all()


@pytest.mark.sandbox
@pytest.mark.parametrize("left", ["vms/{}", "trees/disks/{}", "trees/trash/disks/{}"])
def test_parts_of_vms_that_no_lease_names(living: Living, left: str):
    script = 'mkdir "$1" && mkdir -p "$1/work/work" && chmod 0 "$1/work/work"'
    where = living.sandbox / left.format(uuid4())
    if left.startswith("vms"):
        where.mkdir()
    else:
        run_mapped(["sh", "-c", script, "sh", where.name], idmap=IdMap.of_caller(), cwd=where.parent)
    living.reap()
    assert not where.exists()
    living.stays()


@pytest.mark.sandbox
def test_control_groups_that_no_lease_names(living: Living):
    provider = living.provider
    assert isinstance(provider, SandboxProvider)
    name = provider.group_name(str(uuid4()))
    provider.limits.make_groups(name, provider.limits.of_job(Shape()))
    living.reap()
    assert not any(group.exists() for group in provider.limits.groups(name))
    living.stays()


@pytest.mark.sandbox
def test_what_cannot_be_destroyed_keeps_nothing_else_from_it(living: Living):
    (living.sandbox / "vms" / "-no name-").mkdir()
    living.provider.create(VmSpec("z", "debian:12", network=False))
    living.reap()
    assert "z" not in living.provider.list()
    (living.sandbox / "vms" / "-no name-").rmdir()
    living.stays()


def test_orphan_snapshots_go_even_if_one_is_based_on_another(living: Living):
    below = None
    for number in range(4):
        name = f"{4 - number}-{uuid4()}"
        living.provider.create(VmSpec(name, "debian:12", below, network=False))
        living.provider.snapshot(name, name)
        living.provider.destroy(name)
        below = name
    living.reap()
    living.stays()


def test_rows_of_snapshots_that_are_nowhere(living: Living):
    living.storage.snapshots.add("nowhere", living.host.job(living.build, "parent").id, "sandbox")
    living.reap()
    living.stays()


def test_a_snapshot_that_is_just_being_made_keeps_its_row(living: Living):
    child = living.host.job(living.build, "child")
    living.storage.snapshots.add("coming", child.id, "sandbox")
    living.reap_later()
    assert "coming" in {snapshot.name for snapshot in living.storage.snapshots.all()}
    living.storage.snapshots.remove("coming")
    living.stays()


def test_a_snapshot_of_a_build_that_is_over_goes_with_it(living: Living):
    other = living.host.build(Graph().step("a", "true").step("b", "true", builds_in="a").ir())
    living.host.finish(other)
    until(lambda: len(living.storage.leases.live()) == 1, "the end of the other's leases")
    living.reap()
    living.stays()


def test_parked_leases_whose_vm_is_gone(living: Living):
    gone, there = (_parked(living, make=make) for make in (False, True))
    living.reap()
    states = {uuid: _state(living, uuid) for uuid in (gone, there)}
    assert states == {gone: LeaseState.ENDED, there: LeaseState.PARKED}
    living.provider.destroy(there)
    living.reap()
    assert _state(living, there) is LeaseState.ENDED
    living.stays()


def test_leases_of_vms_that_nobody_is_making_any_more(living: Living):
    lease = living.storage.leases.reserve_parked(str(uuid4()), "sandbox")
    living.reap()
    assert _state(living, lease.uuid) is LeaseState.CREATING
    living.reap_later()
    assert _state(living, lease.uuid) is LeaseState.ENDED
    living.stays()


def test_a_parked_lease_that_a_job_has_just_taken_stays(living: Living):
    taken = living.storage.leases.by_uuid(_parked(living, make=True))
    assert taken is not None
    child = living.host.job(living.build, "child")
    adopt = "UPDATE leases SET state = 'active', organization_id = :organization, job_id = :job, attempt = :attempt"
    run_sql(
        living.storage.directory,
        f"{adopt} WHERE id = :id",
        id=taken.id,
        organization=living.build.organization_id,
        job=child.id,
        attempt=child.attempt,
    )
    assert not living.storage.leases.end_unclaimed(taken.id)
    assert _state(living, taken.uuid) is LeaseState.ACTIVE
    living.storage.leases.end(taken.id)
    living.reap()
    living.stays()


def test_leases_of_jobs_that_are_over(living: Living, host: Host):
    over = host.build(one("true"))
    host.finish(over)
    lease = living.storage.leases.of_job(host.job(over).id)
    assert lease is not None
    until(lambda: _state(living, lease.uuid) is LeaseState.ENDED, "the lease's end")
    run_sql(living.storage.directory, "UPDATE leases SET state = 'active' WHERE id = :id", id=lease.id)
    living.provider.create(VmSpec(lease.uuid, "debian:12", network=False))
    living.reap()
    assert _state(living, lease.uuid) is LeaseState.ENDED
    living.stays()


def test_sources_that_belong_to_no_build_when_they_are_old(living: Living):
    folder = living.storage.directory / "sources"
    old, young, partial = (
        folder / name for name in (f"{uuid4()}.tar.gz", f"{uuid4()}.tar.gz", f"{uuid4()}.tar.partial")
    )
    for path in (old, young, partial):
        path.write_bytes(b"half")
    own = living.storage.sources.path(living.build.uuid)
    for path in (old, partial, own):
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    living.reap()
    assert {path.name for path in folder.iterdir()} == {young.name, own.name}
    living.reap_later()
    living.stays()


def test_sources_of_builds_that_were_never_made_go_at_the_start(living: Living):
    folder = living.storage.directory / "sources"
    for name in (f"{uuid4()}.tar.gz", f"{uuid4()}.tar.partial"):
        (folder / name).write_bytes(b"half")
    living.host.restart()
    assert list(folder.iterdir()) == [living.storage.sources.path(living.build.uuid)]
    living.stays()


def test_sources_of_builds_that_are_being_made_stay(living: Living):
    folder = living.storage.directory / "sources"
    old, new = folder / "old.partial", folder / "new.partial"
    for file in (old, new):
        file.write_bytes(b"an archive")
    os.utime(old, (time.time() - 60, time.time() - 60))
    living.host.reaper().remove_orphans(before=living.host.clock.now() - timedelta(seconds=30))
    assert sorted(folder.iterdir()) == sorted([living.storage.sources.path(living.build.uuid), new])


def test_a_source_that_its_finished_build_does_not_keep(living: Living):
    over = living.host.build(one("true"))
    living.storage.sources.store(over.uuid, b"an archive")
    living.host.finish(over)
    until(lambda: len(living.storage.leases.live()) == 1, "the end of its lease")
    living.reap_later()
    living.stays()


def test_sources_of_finished_builds_expire_or_make_room(living: Living):
    kept, going = (living.host.build(one("true"), source_archive=b"archive") for _ in range(2))
    for build in (kept, going):
        living.host.finish(build)
    until(lambda: len(living.storage.leases.live()) == 1, "the end of their leases")
    living.reap_later()
    assert living.storage.source_retention.owners() == {living.build.uuid, kept.uuid, going.uuid}
    assert set(living.storage.sources.all()) == {living.build.uuid, kept.uuid, going.uuid}
    living.host.reaper().free_disk_space(1)
    assert len(living.storage.sources.all()) == 2
    living.host.reaper(LaterClock(timedelta(days=31))).expire()
    living.stays()


def test_logs_of_builds_that_are_not_in_the_database(living: Living):
    with living.storage.logs.writer(str(uuid4()), "job", 1) as log:
        log.output(b"whose?")
    living.host.reaper().expire()
    assert list(living.storage.logs.builds()) == [living.build.uuid]
    living.stays()


def test_files_of_artifacts_that_no_row_names_when_they_are_old(living: Living):
    artifacts, job = living.storage.artifacts, living.host.job(living.build, "child")
    kept, stray = (artifacts.files.write(living.build.uuid, name, [b"bytes"]) for name in ("kept", "stray"))
    artifacts.store(living.build, job, [kept])
    living.host.reaper().expire()
    assert artifacts.files.path(living.build.uuid, stray.uuid).exists()
    living.host.reaper(LaterClock()).expire()
    assert not artifacts.files.path(living.build.uuid, stray.uuid).exists()
    assert [artifacts.path(left).read_bytes() for left in artifacts.of_job(job.id)] == [b"bytes"]
    living.stays()


def _parked(living: Living, *, make: bool) -> str:
    lease = living.storage.leases.reserve_parked(str(uuid4()), "sandbox")
    if make:
        living.provider.park(lease.uuid)
    living.storage.leases.parked(lease.id)
    return lease.uuid


def _state(living: Living, uuid: str) -> LeaseState:
    lease = living.storage.leases.by_uuid(uuid)
    assert lease is not None
    return lease.state


def test_vms_of_renders_that_ended_or_started_again_are_reaped(living: Living):
    living.storage.switches.drain()  # the engine leaves the render alone
    build = living.storage.renders.begin(living.host.pipeline, NewBuild("main", "c0ffee"), None)
    render = living.storage.renders.get(build.id)
    assert render is not None
    vms = [str(uuid4()), str(uuid4())]
    for vm in vms:
        living.storage.renders.lease(render, vm, provider="sandbox", image="debian:12", shape=Shape())
        living.provider.create(VmSpec(vm, "debian:12", network=False))
    living.reap()
    assert set(living.provider.list()) & set(vms) == {vms[1]}
    living.storage.renders.refuse(build.id, "render_failed", "for the test")
    living.reap()
    living.stays()


def test_copies_of_images_that_the_store_lacks_go_at_a_provider(host: Host):
    provider = host.provider
    assert isinstance(provider, MemoryProvider)
    assert host.finish(host.build(one("true"))).state == "passed"
    (used,) = provider.image_copies
    provider.image_copies.add("gone:1")
    host.reaper().expire()
    assert provider.image_copies == {used}
