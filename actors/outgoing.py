"""Addresses that people name and this service connects to: public ones, and those its owner allows."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from actors.vms.public_addresses import is_public, is_within
from storage import error_reason

if TYPE_CHECKING:
    import ssl
    from ipaddress import IPv4Network, IPv6Network


class AddressRefused(Exception):
    """The service does not connect to this host; the message says why."""


def checked_addresses(
    networks: tuple[IPv4Network | IPv6Network, ...], host: str, port: int, *, secure: bool, setting: str
) -> list[str]:
    """Return the addresses of a host that may be connected to; it is resolved once, and they are checked.

    Without encryption only ``networks`` may, which the owner names in ``setting``. Raises AddressRefused if there are
    none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"{host} is not found: {error_reason(error)}") from None
    addresses = list(dict.fromkeys(ip_address(str(each[4][0]).partition("%")[0]) for each in found))
    allowed = [each for each in addresses if is_within(each, networks) or (secure and is_public(each))]
    if not allowed and any(is_public(each) for each in addresses):
        raise AddressRefused(f"the address begins with http://: only networks in {setting} may be sent to like that")
    if not allowed:
        raise AddressRefused(f"{host} has no public address: the owner may allow its network in {setting}")
    return [str(each) for each in allowed]


def usual_context() -> ssl.SSLContext:
    """Return the context of encrypted connections that checks certificates as httpx does."""
    import httpx  # noqa: PLC0415 - it imports its own command, which would take a tenth of the service's start

    return httpx.create_ssl_context()
