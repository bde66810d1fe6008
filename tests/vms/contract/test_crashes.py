"""Crashes of the daemon and of VMs: all is found again, and freed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from actors.vms import CommandSpec, Provider, VmError, VmLost, VmUse, follow, start
from tests.vms.contract.conftest import Boot, Vm, park
from tests.vms.contract.daemon import Daemon
from tests.vms.contract.hosts import Host, processes_in
from tests.waiting import until


@pytest.fixture
def daemon(host: Host) -> Iterator[Callable[[str], Daemon]]:
    """Start daemons that make a VM each; none outlives the test."""
    started: list[Daemon] = []

    def start_one(vm_id: str) -> Daemon:
        started.append(Daemon(host.name, host.folder, host.images_dir, vm_id))
        started[-1].wait_for("begins")
        return started[-1]

    yield start_one
    for each in started:
        each.kill()


@pytest.mark.real
@pytest.mark.essential
def test_a_vm_outlives_the_daemon_that_made_it(host: Host, daemon: Callable[[str], Daemon]):
    maker = daemon("vm")
    maker.wait_for("made")
    maker.kill()
    vm = Vm(host.open(), "vm")
    assert list(vm.provider.list()) == ["vm"]
    assert vm.provider.alive("vm")
    assert vm.run("echo well") == (0, b"well\n")
    vm.provider.destroy("vm")
    assert processes_in(host.folder) == []


@pytest.mark.real
def test_a_daemon_killed_as_it_makes_a_vm_leaves_it_listed(host: Host, daemon: Callable[[str], Daemon]):
    """So nothing is ever left that nobody can name."""
    provider = host.open()
    maker = daemon("vm")
    until(lambda: list(provider.list()), "the VM's first trace")
    maker.kill()
    assert list(provider.list()) == ["vm"]
    provider.destroy("vm")
    assert list(provider.list()) == []
    assert processes_in(host.folder) == []


@pytest.mark.essential
def test_a_vm_that_crashed_is_lost_but_listed_and_freed(host: Host, boot: Boot, provider: Provider):
    crashed, other = boot(), boot()
    with crashed.connect() as connection:
        start(connection, CommandSpec("echo up; sleep 60"))
        chunks = iter(follow(connection))
        assert next(chunks) == b"up\n"
        host.crash(crashed.id)
        with pytest.raises(VmError):
            list(chunks)
    until(lambda: not provider.alive(crashed.id), "the VM's end")
    with pytest.raises(VmLost):
        provider.connect(crashed.id)
    assert list(provider.list()) == [crashed.id, other.id]
    provider.destroy(crashed.id)
    assert list(provider.list()) == [other.id]
    assert provider.use(crashed.id) == VmUse()
    assert other.run("echo well") == (0, b"well\n")


@pytest.mark.parks
def test_a_parked_vm_that_crashed_is_not_parked_and_freed(host: Host, provider: Provider):
    park(provider, "vm")
    host.crash("vm")
    until(lambda: not provider.parked("vm"), "the VM's end")
    assert list(provider.list()) == ["vm"]
    provider.destroy("vm")
    assert list(provider.list()) == []
