"""Two providers side by side in one engine: each VM and disk belongs to the one that made it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.vms import Images, VmSpec
from storage import Build, JobState, Lease
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.memory.provider import MemoryProvider
from tests.waiting import until

LONG = "sleep 600"
CACHED = Graph().step("deps", "true", cache={"policy": "forever", "key": "k"}).step("test", "true", builds_in="deps")


class Two:
    """A host with room for two VMs, of two providers; its own is ``sandbox``."""

    def __init__(self, folder: Path, images: Images) -> None:
        self.sandbox, self.qemu = MemoryProvider(images), MemoryProvider(images, name="qemu")
        self.host = Host(folder, self.sandbox, images, max_vms=2, others=[self.qemu])
        self.other = self.host.other_pipeline()

    def choose(self, provider: str | None) -> None:
        """Choose the provider of the other organization."""
        self.host.storage.organizations.configure(self.other.organization_id, provider=provider)

    def running(self, build: Build) -> Lease:
        """Wait until a build's only job runs; return its lease."""
        host = self.host
        until(lambda: host.job(build).state is JobState.RUNNING, "running")
        lease = host.storage.leases.of_job(host.job(build).id)
        assert lease is not None
        return lease

    def passed(self, ir: str) -> dict[str, str | None]:
        """Build in the other organization; return the provider of each job that ran, None for a cache hit."""
        host = self.host
        build = host.finish(host.build(ir, self.other))
        assert build.state == "passed"
        leases = {job.step_key: host.storage.leases.of_job(job.id) for job in host.storage.jobs.of_build(build.id)}
        return {key: lease and lease.provider for key, lease in leases.items()}

    def at_work(self) -> tuple[list[str], list[str]]:
        return list(self.sandbox.list()), list(self.qemu.list())


@pytest.fixture
def two(tmp_path: Path, images: Images) -> Iterator[Two]:
    two = Two(tmp_path, images)
    with closing(two.host):
        yield two


def test_two_providers_share_one_cap_and_outlive_a_restart(two: Two):
    host = two.host
    host.engine.start()
    two.choose("qemu")
    own = two.running(mine := host.build(one(LONG)))
    others = two.running(theirs := host.build(one(LONG), two.other))
    assert (own.provider, others.provider) == ("sandbox", "qemu")
    assert two.at_work() == ([own.uuid], [others.uuid])
    third = host.build(one("true"), two.other)
    full = "waiting for a VM: host is full (2 of 2)"
    until(lambda: host.engine.pending_reason(host.job(third)) == full, "the third to wait")
    two.choose(None)  # what is leased stays where it is
    host.restart()
    host.reaper().reap()
    assert two.at_work() == ([own.uuid], [others.uuid])
    for build in (mine, theirs):
        host.engine.cancel(build.id)
        assert host.finish(build).state == "canceled"
    assert host.finish(third).state == "passed"
    until(lambda: two.at_work() == ([], []), "every VM gone")
    last = host.storage.leases.of_job(host.job(third).id)
    assert last is not None
    assert last.provider == "sandbox"


def test_a_disk_is_used_only_by_vms_of_its_provider(two: Two):
    two.host.engine.start()
    assert two.passed(CACHED.ir()) == {"deps": "sandbox", "test": "sandbox"}
    two.choose("qemu")
    assert two.passed(CACHED.ir()) == {"deps": "qemu", "test": "qemu"}
    assert two.passed(CACHED.ir()) == {"deps": None, "test": "qemu"}
    two.choose("sandbox")
    assert two.passed(CACHED.ir()) == {"deps": None, "test": "sandbox"}
    kept = [[*provider.snapshots()] for provider in (two.sandbox, two.qemu)]
    assert [len(disks) for disks in kept] == [1, 1]
    entries = {entry.provider: [entry.snapshot] for entry in two.host.storage.cache.entries()}
    assert entries == {"sandbox": kept[0], "qemu": kept[1]}


def test_what_no_row_names_is_removed_at_each_provider(two: Two):
    for provider in (two.sandbox, two.qemu):
        provider.create(VmSpec("vm", "debian:12"))
        provider.snapshot("vm", "below")
        provider.destroy("vm")
        provider.create(VmSpec("left", "debian:12", "below"))
        provider.snapshot("left", "above")
    two.host.engine.start()
    until(lambda: two.at_work() == ([], []), "every VM gone")
    until(lambda: not [*two.sandbox.snapshots(), *two.qemu.snapshots()], "every snapshot gone")
