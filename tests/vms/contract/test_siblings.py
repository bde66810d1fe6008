"""VMs beside each other: none sees another, or takes from it what it needs."""

from __future__ import annotations

import pytest

from actors.vms import Provider
from tests.vms.contract.conftest import Boot, Vm
from tests.vms.contract.taking import AS_SEVERAL_USERS, IN_FLIGHT, PIPE_BYTES, PIPES, TAKERS, TERMINALS, taking
from tests.vms.contract.traces import LEAVE, OWN_KERNEL_PLACES, PLACES, SEEK


def leave(vm: Vm, program: str) -> int:
    """Start a program that prints a number and keeps running; return the number."""
    vm.run("cat > /tmp/program.py", program.encode())
    vm.says("setsid -f python3 /tmp/program.py > /tmp/output 2>&1; until [ -s /tmp/output ]; do sleep 0.05; done")
    return int(vm.says("cat /tmp/output"))


@pytest.mark.real
def test_a_vm_finds_no_trace_of_its_sibling_or_parent(boot: Boot, provider: Provider):
    """A fork has its parent's files alone. The job that left the traces finds them all."""
    parent = boot()
    parent.python(LEAVE)
    places = PLACES | OWN_KERNEL_PLACES if provider.description.own_kernel else PLACES
    assert set(parent.python(SEEK).splitlines()) == places
    stranger = boot()
    assert stranger.python(SEEK) == ""
    provider.destroy(stranger.id)
    fork = boot(parent.snapshot("taken"))
    assert set(fork.python(SEEK).splitlines()) == {"file of the disk", "file of the system"}


@pytest.mark.real
def test_vms_of_one_snapshot_have_keys_of_their_own(boot: Boot, provider: Provider):
    taken = boot().snapshot("taken")
    endpoints = [provider.connect(boot(taken).id) for _ in range(2)]
    assert len({endpoint.host_key for endpoint in endpoints}) == 2
    assert len({endpoint.private_key for endpoint in endpoints}) == 2
    for endpoint in endpoints:
        endpoint.socket.close()


@pytest.mark.real
@pytest.mark.parametrize("what", TAKERS)
def test_no_vm_takes_it_from_another_under_any_number_of_ids(boot: Boot, what: str):
    greedy, other = boot(), boot()
    assert leave(greedy, taking(what) + AS_SEVERAL_USERS) > 0
    prepared = "libc = ctypes.CDLL(None, use_errno=True)\nprint(take(), os.strerror(ctypes.get_errno()))"
    assert other.python(taking(what) + prepared).startswith("True")


@pytest.mark.real
def test_pipes_work_whatever_another_vm_has_taken(boot: Boot, provider: Provider):
    """They may be smaller where VMs share a kernel."""
    assert leave(boot(), PIPES) == 4000
    size = int(boot().python(PIPE_BYTES))
    assert size == 1 << 16 if provider.description.own_kernel else size >= 1 << 12


@pytest.mark.real
@pytest.mark.essential
@pytest.mark.shared_kernel
def test_a_vm_is_made_with_terminals_whatever_another_has_taken(boot: Boot):
    """An engine, too, needs one for each instance that it starts."""
    assert leave(boot(), TERMINALS) > 0
    assert boot().says("python3 -c 'import os; os.openpty()' && echo well") == "well"


@pytest.mark.real
def test_descriptors_in_flight_stop_no_networked_vm(boot: Boot):
    assert leave(boot(), IN_FLIGHT) > 1000
    other = boot(network=True)
    assert other.says("ls /sys/class/net | grep -c -v lo") == "1"
    assert other.says("echo well") == "well"
