"""VMs on the members of a cluster, over TLS: where they are made, and where not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.vms import VmSpec
from actors.vms.images import ImageStore
from actors.vms.incus import IncusProvider
from storage import Shape
from tests.fleet.engine import INCUS
from tests.fleet.fleet import Fleet
from tests.fleet.prepared_cluster import prepare, provider_of, says


@pytest.fixture(scope="module")
def three() -> Iterator[Fleet]:
    """A cluster of three, in whose network the tests of this module run."""
    with Fleet(INCUS, 3) as fleet, fleet.switch.entered():
        yield fleet


@pytest.fixture(scope="module")
def provider(
    three: Fleet, image_store: ImageStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IncusProvider]:
    state = tmp_path_factory.mktemp("state")
    prepare(three, state)
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


def spec(vm_id: str, snapshot: str | None = None) -> VmSpec:
    return VmSpec(vm_id, "debian:12", snapshot, Shape(memory_gb=1))
