"""The plan of a VM's network: the program that provides it, and the addresses that stay closed."""

from __future__ import annotations

import shutil
from functools import lru_cache
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from actors.vms.provider import VmError
from actors.vms.sandbox.firewall import CLOSED_NETWORKS, ruleset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.vms.sandbox.settings import NetworkSettings

RESOLVER = "10.0.2.3"
"""The address at which a VM finds the host's resolver, whatever its real address is."""

_ADDRESS, _PREFIX, _GATEWAY = "10.0.2.100", "24", "10.0.2.2"
_SECONDS = 20.0
_TUN = Path("/dev/net/tun")
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


def host_addresses(table: Path = Path("/proc/net/fib_trie")) -> Iterable[IPv4Network]:
    """Return every IPv4 address of this host, each as a network of one."""
    found = set()
    address = ""
    for line in table.read_text(encoding="ascii").splitlines():
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
    try:
        allow = [IPv4Network(network) for network in settings.allow]
    except ValueError as error:
        message = f"a network that VMs may reach is not in CIDR form: {error}"
        raise VmError(message) from error
    return _ruleset(tuple(allow), (*CLOSED_NETWORKS, *host_addresses()), dns_over_tcp=dns_over_tcp)


@lru_cache(maxsize=1)
def _ruleset(allow: tuple[IPv4Network, ...], closed: tuple[IPv4Network, ...], *, dns_over_tcp: bool) -> bytes:
    """Return the rules of every VM; made anew if an address of the host has changed."""
    return ruleset(RESOLVER, allow, closed, dns_over_tcp=dns_over_tcp)
