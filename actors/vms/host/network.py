"""The plan of a VM's network: the program that provides it, and the rules for what it may reach.

The rules are a batch of nftables messages (engine.md, "Leases"). Routes would not suffice: a socket bound to the
interface bypasses them, and binding takes no privilege. Output rules in the VM's network namespace see every packet,
and changing them takes ``net_admin``, which nothing in the VM has. The messages are built here: not every host has
`nft`, and running it would take longer than all of this. pyroute2 has them too, but takes 0.2 s of CPU to import, and
the launcher, which sends them, has no package at all.
"""

from __future__ import annotations

import shutil
import struct
from functools import lru_cache
from ipaddress import IPv4Network
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.vms.settings import NetworkSettings


RESOLVER = "10.0.2.3"
"""The address at which a VM finds the host's resolver, whatever its real address is."""

_ADDRESS, _PREFIX, _GATEWAY = "10.0.2.100", "24", "10.0.2.2"
_SECONDS = 20.0
_TUN = Path("/dev/net/tun")
_ADDRESSES = Path("/proc/net/fib_trie")
_OTHERS_READ_WRITE = 0o006


class NetworkPlan(TypedDict):
    """The launcher's work for a VM's network: the rules to set, then the program to start.

    ``ready`` is the way in which the program reports that the network is up: by going to the background (``exit``), or
    by a byte on the descriptor given with ``--ready-fd`` (``fd``). It has ``seconds`` to do so.
    """

    rules: bytes
    argv: list[str]
    ready: str
    seconds: float


def plan_network(settings: NetworkSettings, tun: Path = _TUN) -> NetworkPlan:
    """Return the plan for a VM with a network, for the host as it is now.

    slirp4netns is up in 4 ms, pasta in 14; only slirp4netns supports DNS over TCP. Raises VmError if neither is
    installed, the host's tun device is not usable, or an allowed network is not in CIDR form.
    """
    _check_tun(tun)
    netns, interface = "./netns", "eth0"
    if slirp := shutil.which("slirp4netns"):
        isolation = ["--disable-host-loopback", "--enable-sandbox", "--enable-seccomp"]
        argv = [slirp, "--configure", "--mtu=65520", *isolation, "--netns-type=path", netns, interface]
        return NetworkPlan(rules=_rules(settings, dns_over_tcp=True), argv=argv, ready="fd", seconds=_SECONDS)
    if pasta := shutil.which("pasta"):
        address = ["-4", "-a", _ADDRESS, "-n", _PREFIX, "-g", _GATEWAY, "--dns-forward", RESOLVER, "-I", interface]
        no_host_access = ["--no-map-gw", "-t", "none", "-u", "none", "-T", "none", "-U", "none"]
        no_services = ["--no-dhcp", "--no-ndp", "--no-ra", "--no-dhcpv6"]
        argv = [pasta, "--quiet", "--config-net", *address, *no_host_access, *no_services, "--netns", netns]
        return NetworkPlan(rules=_rules(settings, dns_over_tcp=False), argv=argv, ready="exit", seconds=_SECONDS)
    message = "no program for the network of VMs is installed: run `sudo apt-get install -y slirp4netns`"
    raise VmError(message)


def host_addresses(table: Path = _ADDRESSES) -> Iterable[IPv4Network]:
    """Return every IPv4 address of this host, each as a network of one."""
    return _addresses_in(table.read_text(encoding="ascii"))


def _addresses_in(table: str) -> list[IPv4Network]:
    found = set()
    address = ""
    for line in table.splitlines():
        if line.lstrip().startswith("|--"):
            address = line.split()[-1]
        elif line.split()[:3] == ["/32", "host", "LOCAL"]:
            found.add(IPv4Network(address))
    return sorted(found)


def _check_tun(device: Path) -> None:
    try:
        mode = device.stat().st_mode
    except FileNotFoundError as error:
        message = f"{device} does not exist: run `sudo modprobe tun`"
        raise VmError(message) from error
    if mode & _OTHERS_READ_WRITE != _OTHERS_READ_WRITE:
        message = f"VMs cannot use {device}: run `sudo chmod 0666 {device}`"
        raise VmError(message)


def _rules(settings: NetworkSettings, *, dns_over_tcp: bool) -> bytes:
    return _ruleset(tuple(settings.allow), _ADDRESSES.read_text(encoding="ascii"), dns_over_tcp=dns_over_tcp)


@lru_cache(maxsize=1)
def _ruleset(allowed: tuple[str, ...], addresses: str, *, dns_over_tcp: bool) -> bytes:
    """Return the rules of every VM, for a table of the kernel's addresses. Raises VmError."""
    try:
        allow = [IPv4Network(network) for network in allowed]
    except ValueError as error:
        message = f"a network that VMs may reach is not in CIDR form: {error}"
        raise VmError(message) from error
    return ruleset(RESOLVER, allow, (*CLOSED_NETWORKS, *_addresses_in(addresses)), dns_over_tcp=dns_over_tcp)


CLOSED_NETWORKS = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
"""This host, private and link-local networks, carrier-grade NAT, benchmarks, multicast, reserved."""

_TABLE, _CHAIN = "ci-daemon", "out"
_IPV4, _IPV6, _UNSPECIFIED = 2, 10, 0
_LOCAL_OUT = 3
_DROP, _ACCEPT = 0, 1
_LOOPBACK_INDEX = 1
_TCP, _UDP = 6, 17
_DNS = 53
_DESTINATION, _DESTINATION_PORT = (1, 16, 4), (2, 2, 2)
_META_OUT_INTERFACE, _META_PROTOCOL = 5, 16
_ICMP_UNREACHABLE, _TCP_RESET = 0, 1
_PROHIBITED = 13

_SUBSYSTEM = 10
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 3, 6
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_REQUEST, _ACK, _CREATE, _APPEND = 0x001, 0x004, 0x400, 0x800
_NESTED = 0x8000
_REGISTER = 1


def ruleset(resolver: str, allow: Iterable[IPv4Network], closed: Iterable[IPv4Network], *, dns_over_tcp: bool) -> bytes:
    """Return the batch that sets the output rules of a network namespace; the first match decides.

    Packets may go anywhere over ``lo``, nowhere over IPv6, to the resolver for DNS, and to ``allow``. Those to
    ``closed`` are refused at once, which saves a time-out. All others may pass. The kernel acknowledges the last
    message.
    """
    loopback = [_meta(_META_OUT_INTERFACE), _equals(struct.pack("=I", _LOOPBACK_INDEX)), _verdict(_ACCEPT)]
    rules = [loopback]
    for protocol in (_UDP, _TCP) if dns_over_tcp else (_UDP,):
        port = [_payload(*_DESTINATION_PORT), _equals(struct.pack(">H", _DNS))]
        rules.append([*_to(IPv4Network(resolver)), *_protocol(protocol), *port, _verdict(_ACCEPT)])
    rules += [[*_to(network), _verdict(_ACCEPT)] for network in allow]
    for network in closed:
        rules.append([*_to(network), *_protocol(_TCP), _reject(_TCP_RESET)])
        rules.append([*_to(network), _reject(_ICMP_UNREACHABLE)])
    messages = [*_chain(_IPV6, _DROP), _rule(_IPV6, loopback), *_chain(_IPV4, _ACCEPT)]
    messages += [_rule(_IPV4, rule) for rule in rules]
    return _batch(messages)


_Message = tuple[int, int, bytes]
"""Kind, protocol family, attributes."""


def _batch(messages: list[_Message]) -> bytes:
    numbers = count(1)
    parts = [_header(_BATCH_BEGIN, _REQUEST, next(numbers), _UNSPECIFIED, b"", resource=_SUBSYSTEM)]
    for place, (kind, family, attributes) in enumerate(messages, start=1):
        flags = _REQUEST | _CREATE | _APPEND | (_ACK if place == len(messages) else 0)
        parts.append(_header(_SUBSYSTEM << 8 | kind, flags, next(numbers), family, attributes))
    parts.append(_header(_BATCH_END, _REQUEST, next(numbers), _UNSPECIFIED, b"", resource=_SUBSYSTEM))
    return b"".join(parts)


def _header(kind: int, flags: int, number: int, family: int, attributes: bytes, resource: int = 0) -> bytes:
    return (
        struct.pack("=IHHII", 20 + len(attributes), kind, flags, number, 0)
        + struct.pack(">BBH", family, 0, resource)
        + attributes
    )


def _chain(family: int, policy: int) -> list[_Message]:
    hook = _nested(4, _number(1, _LOCAL_OUT), _number(2, 0))
    chain = _text(1, _TABLE) + _text(3, _CHAIN) + hook + _number(5, policy) + _text(7, "filter")
    return [(_NEW_TABLE, family, _text(1, _TABLE)), (_NEW_CHAIN, family, chain)]


def _rule(family: int, expressions: list[bytes]) -> _Message:
    return _NEW_RULE, family, _text(1, _TABLE) + _text(2, _CHAIN) + _nested(4, *expressions)


def _to(network: IPv4Network) -> list[bytes]:
    mask = _expression(
        "bitwise",
        _number(1, _REGISTER),
        _number(2, _REGISTER),
        _number(3, 4),
        _nested(4, _attribute(1, network.netmask.packed)),
        _nested(5, _attribute(1, bytes(4))),
    )
    return [_payload(*_DESTINATION), mask, _equals(network.network_address.packed)]


def _protocol(number: int) -> list[bytes]:
    return [_meta(_META_PROTOCOL), _equals(bytes([number]))]


def _payload(base: int, offset: int, length: int) -> bytes:
    return _expression("payload", _number(1, _REGISTER), _number(2, base), _number(3, offset), _number(4, length))


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER), _number(2, key))


def _equals(value: bytes) -> bytes:
    return _expression("cmp", _number(1, _REGISTER), _number(2, 0), _nested(3, _attribute(1, value)))


def _verdict(code: int) -> bytes:
    return _expression("immediate", _number(1, 0), _nested(2, _nested(2, _number(1, code))))


def _reject(kind: int) -> bytes:
    return _expression("reject", _number(1, kind), _attribute(2, bytes([_PROHIBITED])))


def _expression(name: str, *attributes: bytes) -> bytes:
    return _nested(1, _text(1, name), _nested(2, *attributes))


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _nested(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(attributes))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
