"""The network of VMs: on, with the host closed; or off, with nothing but the VM itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.vms import Provider, VmSpec
from tests.host_server import greeter, own_address
from tests.vms.contract.conftest import Boot, Vm, park
from tests.vms.contract.hosts import IMAGE, Host

REACHED = """\
import socket
for address in {addresses!r}:
    with socket.socket() as tcp:
        tcp.settimeout({patience})
        try:
            tcp.connect((address, {port}))
            print(address if tcp.recv(5) == b"hello" else "")
        except OSError:
            pass
"""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server on all addresses of the host."""
    with greeter() as port:
        yield port


def reached(vm: Vm, port: int, *addresses: str, patience: float) -> list[str]:
    """Return the addresses of which a server of the host answered."""
    return vm.python(REACHED.format(addresses=addresses, port=port, patience=patience)).split()


@pytest.mark.real
def test_a_vm_without_a_network_has_only_itself(boot: Boot):
    vm = boot()
    assert vm.says("ls /sys/class/net") == "lo"
    assert vm.says("cat /etc/resolv.conf; tail -n +2 /proc/net/route") == ""
    assert vm.python("import socket; print(socket.create_server(('127.0.0.1', 0)).getsockname()[0])") == "127.0.0.1"


@pytest.mark.real
@pytest.mark.essential
def test_a_networked_vm_has_a_resolver_and_a_closed_host(boot: Boot, port: int):
    vm = boot(network=True)
    assert vm.says("ls /sys/class/net | grep -c -v '^lo$'") == "1"
    assert vm.says("grep -c '^nameserver' /etc/resolv.conf") == "1"
    assert vm.says("grep -c -P '^\\S+\\t00000000\\t' /proc/net/route") == "1"
    closed = ("127.0.0.1", own_address(), "10.0.2.2", "10.0.2.3", "169.254.169.254", "0.0.0.0")
    assert reached(vm, port, *closed, patience=0.3) == []


@pytest.mark.real
def test_networks_that_the_owner_allows_are_open(host: Host, port: int):
    provider: Provider = host.open(allow=(f"{own_address()}/32",))
    provider.create(VmSpec("vm", IMAGE, network=True))
    assert reached(Vm(provider, "vm"), port, own_address(), "127.0.0.1", patience=20) == [own_address()]


@pytest.mark.real
def test_parked_vms_get_the_network_of_their_job(provider: Provider):
    for name, network in (("on", True), ("off", False)):
        park(provider, name)
        provider.attach(VmSpec(name, IMAGE, network=network))
    with_network, without = (Vm(provider, name).says("ls /sys/class/net | wc -l") for name in ("on", "off"))
    assert (with_network, without) == ("2", "1")
