"""Public addresses: those that strangers may send this service to. Pure."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network

_NAT64 = IPv6Network("64:ff9b::/96")
_LOW_BITS = 0xFFFFFFFF


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is on the internet. One that stands for an IPv4 address counts as that."""
    if isinstance(address, IPv6Address):
        if carried := _carried(address):
            return all(is_public(each) for each in carried)
        if address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def is_within(address: IPv4Address | IPv6Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Tell whether an address, or the IPv4 address that it maps, is in one of the networks."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in networks)


def _carried(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that packets to an address may end up at."""
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(IPv4Address(int(address) & _LOW_BITS))
    return [each for each in found if each is not None]
