"""VMs on the members of a cluster, over TLS: where they are made, and where not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import VmSpec
from actors.vms.images import ImageStore
from actors.vms.incus import IncusProvider
from ci_daemon.config import load
from ci_daemon.engine_setup import contents_of
from storage import Shape
from tests.fleet.engine import INCUS
from tests.fleet.fleet import Fleet
from tests.fleet.prepared_cluster import prepare, provider_of, says
from tests.waiting import until


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
def _no_vm_is_left(provider: IncusProvider) -> Iterator[None]:
    yield
    for vm_id in provider.list():
        provider.destroy(vm_id)


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
    for vm_id in ("fork", "other"):
        provider.destroy(vm_id)
    provider.remove_snapshot("disk")


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


def test_the_status_has_what_is_on_each_member(state: Path, provider: IncusProvider) -> None:
    for vm_id in ("one", "two"):
        provider.create(spec(vm_id))
    provider.snapshot("two", "disk")
    found = {each.member.name: each for each in contents_of(state, load(state, {}))}
    assert sum(each.instances for each in found.values()) == 1
    at = provider.member("two") or ""
    assert (found[at].snapshots, found[at].images) == (1, ("debian:12",))
    provider.destroy("two")
    provider.remove_snapshot("disk")


def spec(vm_id: str, snapshot: str | None = None) -> VmSpec:
    return VmSpec(vm_id, "debian:12", snapshot, Shape(memory_gb=1))
