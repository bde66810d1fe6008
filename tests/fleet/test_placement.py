"""VMs on the members of a cluster, over TLS: where they are made, and where not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from actors.vms import VmSpec
from actors.vms.host import SnapshotInUse
from actors.vms.images import ImageStore
from actors.vms.incus import Engine, EngineError, IncusProvider, access_of
from actors.vms.incus.volumes import Volumes
from ci_daemon.config import load
from ci_daemon.engine import contents_of
from storage import Shape
from tests.fleet.engine import INCUS
from tests.fleet.fleet import POOL, Fleet
from tests.fleet.prepared_cluster import prepare, provider_of, says
from tests.waiting import until

_MB = 1 << 20
_FILLED_MB = 30
_FILL = f"dd if=/dev/urandom bs=1M count={_FILLED_MB} status=none"


@pytest.fixture(scope="module")
def three() -> Iterator[Fleet]:
    """A cluster of three, in whose network the tests of this module run."""
    with Fleet(INCUS, 3) as fleet, fleet.switch.entered():
        yield fleet


@pytest.fixture(scope="module")
def state(three: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("state")
    prepare(three, made)
    return made


@pytest.fixture(scope="module")
def provider(state: Path, image_store: ImageStore) -> Iterator[IncusProvider]:
    with provider_of(state, image_store) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(provider: IncusProvider) -> Iterator[None]:
    yield
    for vm_id in provider.list():
        provider.destroy(vm_id)
    while left := list(provider.snapshots()):
        for name in left:
            with suppress(SnapshotInUse):
                provider.remove_snapshot(name)


def test_vms_spread_over_members_and_forks_stay(provider: IncusProvider) -> None:
    """By a certificate that is good in the project alone; a fork is made where its parent's disk is."""
    for vm_id in ("one", "two", "three"):
        provider.create(spec(vm_id))
    assert {provider.member(vm_id) for vm_id in ("one", "two", "three")} == {"m1", "m2", "m3"}
    home = provider.member("two")
    assert says(provider, "two", "echo kept >/workspace/mark; cat /workspace/mark") == "kept"
    provider.snapshot("two", "disk")
    provider.destroy("two")
    for vm_id in ("fork", "other"):
        provider.create(spec(vm_id, "disk"))
        assert provider.member(vm_id) == home
    assert says(provider, "other", "cat /workspace/mark") == "kept"


def test_a_member_that_drains_or_is_evacuated_gets_nothing_new(
    three: Fleet, state: Path, provider: IncusProvider
) -> None:
    """A VM that waits for a job there is no longer given to one; one that runs a job stays."""
    asked = three.members[0]
    provider.create(spec("first"))
    provider.park("waits")
    drained, other = provider.member("waits"), provider.member("first")
    assert provider.parked("waits")
    asked.run(f"incus cluster set {drained} scheduler.instance=manual")
    until(lambda: not provider.parked("waits"), "the member to drain")
    for vm_id in ("second", "third"):
        provider.create(spec(vm_id))
        assert provider.member(vm_id) != drained
    assert provider.alive("first")
    cpus = {each.member.name: each.member.cpus or 0 for each in contents_of(state, load(state, {}))}
    assert provider.size().cpus == sum(cpus.values()) - cpus[drained or ""]
    asked.run(f"incus cluster unset {drained} scheduler.instance")
    asked.run(f"incus cluster evacuate {other} --force")
    provider.create(spec("fourth"))
    assert provider.member("fourth") != other
    asked.run(f"incus cluster restore {other} --force")


@pytest.mark.parametrize(
    ("leave", "come_back"),
    [
        ("incus cluster set {} scheduler.instance=manual", "incus cluster unset {} scheduler.instance"),
        ("incus cluster evacuate {} --force", "incus cluster restore {} --force"),
    ],
    ids=["drains", "evacuated"],
)
def test_a_fork_is_copied_from_a_member_that_takes_no_vms(
    three: Fleet, provider: IncusProvider, leave: str, come_back: str
) -> None:
    """The parent's part does not count to its disk, and its own forks stay with it."""
    provider.create(spec("one"))
    home = provider.member("one")
    says(provider, "one", f"{_FILL} of=/workspace/file; sha256sum /workspace/file >/workspace/sums")
    provider.snapshot("one", "disk")
    provider.destroy("one")
    three.members[0].run(leave.format(home))
    try:
        provider.create(spec("fork", "disk"))
        other = provider.member("fork")
        assert other != home
        assert says(provider, "fork", "sha256sum --check --quiet /workspace/sums && stat -c %u:%g /workspace") == "0:0"
        assert provider.disk("fork").bytes < _MB
        says(provider, "fork", f"{_FILL} of=/workspace/more")
        assert _FILLED_MB * _MB <= provider.disk("fork").bytes < (_FILLED_MB + 1) * _MB
        provider.snapshot("fork", "later")
        provider.destroy("fork")
        provider.create(spec("again", "later"))
        assert provider.member("again") == other
        assert says(provider, "again", "cat /workspace/file /workspace/more | wc -c") == str(2 * _FILLED_MB * _MB)
    finally:
        three.members[0].run(come_back.format(home))


def test_the_space_of_a_disk_is_asked_of_its_own_member(state: Path, provider: IncusProvider) -> None:
    """Another one knows nothing of it."""
    for vm_id in ("one", "two", "three"):
        provider.create(spec(vm_id))
        says(provider, vm_id, f"{_FILL} of=/workspace/file; sync -f /workspace")
    settings = load(state, {}).incus
    access = access_of(state / "incus", settings)
    with closing(Engine(access, settings.project)) as engine:
        disks = [each for each in Volumes(engine, POOL).all() if each.name.startswith("ci-disk-")]
        assert {disk.member for disk in disks} == {"m1", "m2", "m3"}
        for disk in disks:
            until(lambda disk=disk: Volumes(engine, POOL).used_bytes(disk) >= _FILLED_MB * _MB, "the files on the disk")
        there = next(disk for disk in disks if engine.home(disk.member or "") != access.addresses[0])
    few = replace(access, addresses=access.addresses[:1])
    with closing(Engine(few, settings.project)) as engine, pytest.raises(EngineError, match="lacks the address"):
        Volumes(engine, POOL).used_bytes(there)


def test_a_parked_vm_takes_a_job_on_a_full_member(provider: IncusProvider) -> None:
    """It is there in milliseconds, which no copy is; the next fork is copied to another member."""
    provider.create(spec("one"))
    home = provider.member("one")
    says(provider, "one", "echo kept >/workspace/mark")
    provider.snapshot("one", "disk")
    provider.destroy("one")
    for vm_id in ("a", "b", "c"):
        provider.park(vm_id)
    (waits,) = (vm_id for vm_id in ("a", "b", "c") if provider.member(vm_id) == home)
    cores = provider.size().cpus // 3
    provider.create(replace(spec("large", "disk"), shape=Shape(cpu=4 * cores - 1, memory_gb=1)))
    assert provider.member("large") == home
    assert provider.parked(waits)
    provider.attach(spec(waits, "disk"))
    assert says(provider, waits, "cat /workspace/mark") == "kept"
    provider.create(spec("next", "disk"))
    assert provider.member("next") != home
    assert says(provider, "next", "cat /workspace/mark") == "kept"


def test_the_status_has_what_is_on_each_member(state: Path, provider: IncusProvider) -> None:
    for vm_id in ("one", "two"):
        provider.create(spec(vm_id))
    provider.snapshot("two", "disk")
    found = {each.member.name: each for each in contents_of(state, load(state, {}))}
    assert sum(each.instances for each in found.values()) == 1
    at = provider.member("two") or ""
    assert (found[at].snapshots, found[at].images) == (1, ("debian:12",))


def spec(vm_id: str, snapshot: str | None = None) -> VmSpec:
    return VmSpec(vm_id, "debian:12", snapshot, Shape(memory_gb=1))
