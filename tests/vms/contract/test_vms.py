"""The life of a VM: made, found again and ended."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from actors.vms import (
    Connection,
    ConnectionLost,
    ImageNotFound,
    Provider,
    SnapshotNotFound,
    VmError,
    VmLost,
    VmSpec,
    VmUse,
)
from storage import SystemClock
from tests.actors.vms.commands import TIMEOUT
from tests.vms.contract.conftest import Boot
from tests.vms.contract.hosts import IMAGE
from tests.waiting import until


def test_a_vm_is_listed_and_alive_until_it_is_destroyed(boot: Boot):
    vm = boot()
    assert list(vm.provider.list()) == [vm.id]
    assert vm.provider.alive(vm.id)
    with vm.connect() as connection:
        vm.provider.destroy(vm.id)
        assert list(vm.provider.list()) == []
        assert not vm.provider.alive(vm.id)
        with pytest.raises(ConnectionLost):
            connection.run("true", timeout=TIMEOUT)


def test_destroying_is_idempotent_and_unknown_names_are_fine(boot: Boot):
    vm = boot()
    for _ in range(2):
        vm.provider.destroy(vm.id)
    vm.provider.destroy("never-made")


def test_a_vm_destroyed_while_it_is_made_leaves_nothing(provider: Provider):
    def create() -> None:
        with suppress(VmError):
            provider.create(VmSpec("vm", IMAGE, network=False))

    making = threading.Thread(target=create)
    making.start()
    until(lambda: "vm" in provider.list() or not making.is_alive(), "the making")
    provider.destroy("vm")
    making.join(TIMEOUT)
    assert not making.is_alive()
    assert list(provider.list()) == []


@pytest.mark.parametrize("ended", ["never made", "destroyed"])
def test_a_vm_that_ended_is_lost_not_hanging(boot: Boot, provider: Provider, ended: str):
    vm = "never-made"
    if ended == "destroyed":
        provider.destroy(vm := boot().id)
    with pytest.raises(VmLost):
        provider.connect(vm)
    with pytest.raises(VmLost):
        provider.disk(vm)
    assert not provider.alive(vm)
    assert provider.use(vm) == VmUse()


def test_two_vms_cannot_have_one_name(boot: Boot):
    vm = boot()
    with pytest.raises(VmError, match="already"):
        vm.provider.create(VmSpec(vm.id, IMAGE, network=False))
    assert vm.run("echo still here") == (0, b"still here\n")


@pytest.mark.essential
@pytest.mark.parametrize("name", ["", "../other", "a/b", ".", "-rf", "a" * 200, "a\nb"])
def test_a_name_that_is_none_for_a_file_is_refused(provider: Provider, name: str):
    with pytest.raises(VmError, match="not a valid name"):
        provider.create(VmSpec(name, IMAGE, network=False))
    with pytest.raises(VmError, match="not a valid name"):
        provider.destroy(name)


@pytest.mark.essential
def test_unknown_images_and_snapshots_have_errors_of_their_own(provider: Provider):
    with pytest.raises(ImageNotFound):
        provider.create(VmSpec("vm", "none:1", network=False))
    with pytest.raises(SnapshotNotFound):
        provider.create(VmSpec("vm", IMAGE, "none", network=False))
    assert list(provider.list()) == []


def test_every_connection_meets_the_same_pinned_host_key(boot: Boot):
    vm = boot()
    first, second = vm.provider.connect(vm.id), vm.provider.connect(vm.id)
    assert first.host_key == second.host_key
    for endpoint in (first, second):
        with Connection(endpoint, SystemClock(), timeout=TIMEOUT) as connection:
            assert connection.run("true", timeout=TIMEOUT).exit_code == 0
