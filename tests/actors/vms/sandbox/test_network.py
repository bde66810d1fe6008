"""A VM's reach: the world, the resolver and allowed networks, never the host; nothing if switched off."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from actors.vms import NetworkSettings, SandboxSettings, VmError, VmSpec
from actors.vms.host.network import CLOSED_NETWORKS, host_addresses, plan_network
from tests.actors.vms.sandbox.conftest import IMAGE, Boot, Guest, Host
from tests.host_server import greeter, own_address
from tests.waiting import until

PROGRAMS = [name for name in ("slirp4netns", "pasta") if shutil.which(name)] or ["none: apt-get install slirp4netns"]

TRY = """\
import socket, struct
SO_BINDTODEVICE, IP_PKTINFO, IP_UNICAST_IF = 25, 8, 50
INDEX = socket.if_nametoindex("eth0")
PKTINFO = [(socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=I8x", INDEX))]

def by_tcp(prepare):
    with socket.socket() as tcp:
        tcp.settimeout(PATIENCE)
        prepare(tcp)
        tcp.connect((HOST, PORT))
        return tcp.recv(5) == b"hello"

def by_udp(prepare, ancillary=()):
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.settimeout(PATIENCE)
        prepare(udp)
        udp.sendmsg([b"ping"], ancillary, 0, (HOST, PORT))
        return udp.recv(4) == b"pong"

ways = {
    "tcp": lambda: by_tcp(lambda s: None),
    "tcp bound to the interface": lambda: by_tcp(lambda s: s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"eth0")),
    "tcp routed by hand": lambda: by_tcp(lambda s: s.setsockopt(0, IP_UNICAST_IF, struct.pack(">I", INDEX))),
    "tcp without routes": lambda: by_tcp(lambda s: s.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)),
    "udp": lambda: by_udp(lambda s: None),
    "udp bound to the interface": lambda: by_udp(lambda s: s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"eth0")),
    "udp routed by hand": lambda: by_udp(lambda s: None, PKTINFO),
}
for name, way in ways.items():
    try:
        print(name) if way() else None
    except OSError:
        pass
"""

BREAK_OUT = """\
import fcntl, os, socket, struct
def tried(what, action):
    try:
        action()
    except OSError:
        return
    print(what)
def route():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        message = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0)
        netlink.send(struct.pack("=IHHII", 16 + len(message), 24, 0x605, 1, 0) + message)
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
        if error: raise OSError(error)
def rules():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:
        def part(kind, flags, family, resource):
            return struct.pack("=IHHIIBB", 20, kind, flags, 1, 0, family, 0) + struct.pack(">H", resource)
        netlink.send(part(16, 1, 0, 10) + part(10 << 8 | 2, 5, 2, 0) + part(17, 1, 0, 10))
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
        if error: raise OSError(error)
def down():
    with socket.socket() as any:
        fcntl.ioctl(any, 0x8914, struct.pack("16sh14x", b"eth0", 0))
tried("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("route", route)
tried("rules", rules)
tried("interface", down)
tried("tunnel", lambda: os.open("/dev/net/tun", os.O_RDWR))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a TCP and a UDP server on all addresses of the host."""
    with greeter() as port, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("0.0.0.0", port))
        thread = threading.Thread(target=_serve_udp, args=(udp,))
        thread.start()
        yield port
        udp.sendto(b"stop", ("127.0.0.1", port))
        thread.join(5)


def _serve_udp(udp: socket.socket) -> None:
    while True:
        data, sender = udp.recvfrom(100)
        if data == b"stop":
            return
        udp.sendto(b"pong", sender)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the network programs, as if it were the only one on the host."""
    find = shutil.which
    chosen = str(request.param)
    monkeypatch.setattr(shutil, "which", lambda name: find(name) if name == chosen else None)
    return chosen


def ways_to(guest: Guest, address: str, port: int, patience: float = 0.3) -> set[str]:
    """Return the ways by which an answer came; where one is to come, a busy host needs patience."""
    return set(guest.python(f"HOST, PORT, PATIENCE = {address!r}, {port}, {patience}\n{TRY}").splitlines())


def test_a_vm_with_a_network_has_an_interface_and_a_resolver(boot: Boot, program: str) -> None:
    vm = boot(network=True)
    assert set(vm.says("ls /sys/class/net").split()) == {"eth0", "lo"}
    assert vm.says("grep nameserver /etc/resolv.conf") == "nameserver 10.0.2.3"
    assert len(vm.says("tail -n +2 /proc/net/route").splitlines()) == 2


def test_the_host_is_closed_to_root_of_a_vm(boot: Boot, port: int, program: str) -> None:
    vm = boot(network=True)
    for address in ("127.0.0.1", own_address(), "10.0.2.2", "10.0.2.3", "169.254.0.1", "0.0.0.0"):
        assert ways_to(vm, address, port) == set(), address


def test_root_of_a_vm_cannot_open_closed_networks(boot: Boot, port: int, program: str) -> None:
    vm = boot(network=True)
    assert vm.python(BREAK_OUT) == ""
    vm.run("for file in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $file; done")
    vm.run("umount -l /proc; mount -t proc proc /proc; mount -t sysfs sysfs /sys")
    assert ways_to(vm, own_address(), port) == set()


def test_what_the_configuration_allows_is_open(host: Host, boot: Boot, port: int, program: str) -> None:
    allow = (f"{own_address()}/32",)
    provider = host.provider(SandboxSettings(network=NetworkSettings(allow=allow)))
    vm = boot(network=True, provider=provider)
    assert {"tcp", "udp", "tcp bound to the interface"} <= ways_to(vm, own_address(), port, patience=5)
    assert ways_to(vm, "127.0.0.1", port) == set()


def test_closed_networks_are_refused_at_once(boot: Boot) -> None:
    vm = boot(network=True)
    code = int(vm.python("import socket; print(socket.socket().connect_ex(('10.1.2.3', 80)))"))
    assert code not in {0, errno.ETIMEDOUT}  # a time-out takes two minutes


def test_ipv6_leads_nowhere(boot: Boot, program: str) -> None:
    vm = boot(network=True)
    send = "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b'x', (%r, 9, 0, %s))"
    assert vm.run("python3 -", stdin=(send % ("ff02::1", "socket.if_nametoindex('eth0')")).encode()).exit_code != 0
    assert vm.run("python3 -", stdin=(send % ("2001:db8::1", "0")).encode()).exit_code != 0
    assert vm.run("python3 -", stdin=(send % ("::1", "0")).encode()).exit_code == 0


def test_the_network_program_has_no_rights_and_ends_with_the_vm(host: Host, boot: Boot, program: str) -> None:
    vm = boot(network=True)
    (pid,) = [pid for pid in host.processes() if program in command_line(pid)]
    real, effective = Path(f"/proc/{pid}/status").read_text().partition("Uid:\t")[2].split()[:2]
    apart = 0 if program == "pasta" else 65_535  # pasta sets both ids
    assert (int(real), int(effective)) == (host.idmap.root_uid + apart, host.idmap.root_uid)
    vm.provider.destroy(vm.id)
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # what has ended may wait for its parent
        assert "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


def test_a_vm_whose_network_died_is_lost(host: Host, boot: Boot, program: str) -> None:
    vm = boot(network=True)
    (pid,) = [pid for pid in host.processes() if program in command_line(pid)]
    ended = os.pidfd_open(pid)
    signal.pidfd_send_signal(ended, signal.SIGKILL)
    os.close(ended)
    until(lambda: not vm.provider.alive(vm.id), "the VM's end")


def test_a_missing_network_program_is_an_error_with_its_package(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(VmError, match="apt-get install -y slirp4netns"):
        host.provider().create(VmSpec(host.name(), IMAGE))
    assert list(host.provider().list()) == []


def test_a_failed_program_is_named_with_its_output(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false" if name == "slirp4netns" else None)
    with pytest.raises(VmError, match="/bin/false did not bring the network up"):
        host.provider().create(VmSpec(host.name(), IMAGE))
    assert list(host.provider().list()) == []


def test_a_closed_or_missing_tunnel_device_is_an_error(tmp_path: Path) -> None:
    device = tmp_path / "tun"
    with pytest.raises(VmError, match="modprobe tun"):
        plan_network(NetworkSettings(), device)
    device.touch(mode=0o600)
    with pytest.raises(VmError, match="chmod 0666"):
        plan_network(NetworkSettings(), device)


@pytest.mark.parametrize("wrong", ["10.0.0.0/33", "example.org", "10.0.0.1/8", "::/0"])
def test_an_invalid_allowed_network_is_reported(wrong: str) -> None:
    with pytest.raises(VmError, match="CIDR"):
        plan_network(NetworkSettings(allow=(wrong,)))


def test_every_address_of_this_host_is_found(tmp_path: Path) -> None:
    found = {block.network_address for block in host_addresses()}
    assert IPv4Address("127.0.0.1") in found
    assert IPv4Address(own_address()) in found
    table = tmp_path / "fib_trie"
    table.write_text(
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n"
        "Local:\n     |-- 192.0.2.2\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n"
    )
    assert list(host_addresses(table)) == [IPv4Network("192.0.2.2/32")]


@pytest.mark.parametrize(
    "address", ["10.9.8.7", "172.31.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "127.8.8.8", "224.0.0.1"]
)
def test_private_addresses_are_closed(address: str) -> None:
    assert any(IPv4Address(address) in block for block in CLOSED_NETWORKS)


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "193.0.0.1", "100.128.0.1", "223.255.255.255"])
def test_public_addresses_are_open(address: str) -> None:
    assert not any(IPv4Address(address) in block for block in CLOSED_NETWORKS)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
