"""The address that a request comes from, as far as it can be trusted."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    import falcon

# Considered: Werkzeug's `ProxyFix` trusts a number of proxies by count, and waitress's `trusted_proxy` one
# address; here whole networks are trusted, and a chain of any length.

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_ONE_SUBSCRIBER = 64
_FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP")


class ClientAddresses:
    """The addresses of callers: the connection's, or the one that trusted proxies report.

    Each proxy appends the address of its peer to ``X-Forwarded-For``, so the caller is the last address in it that is
    not a trusted proxy. Anything before that may be forged.
    """

    def __init__(self, trusted_proxies: Iterable[str]) -> None:
        self._trusted: list[_Network] = [ip_network(proxy) for proxy in trusted_proxies]

    def network(self, req: falcon.Request) -> str:
        """Return the caller's IPv4 address, or the /64 network that one IPv6 subscriber has."""
        return self.network_behind(req.remote_addr, req.get_header("X-Forwarded-For") or "")

    def network_behind(self, peer: str, forwarded: str) -> str:
        """Return the same of the address of a connection, and the header ``X-Forwarded-For``."""
        caller = self._caller(peer, forwarded)
        if isinstance(caller, IPv6Address):
            return str(ip_network((caller, _ONE_SUBSCRIBER), strict=False))
        return peer if caller is None else str(caller)

    def address(self, req: falcon.Request) -> str:
        """Return the caller's own address."""
        caller = self._caller(req.remote_addr, req.get_header("X-Forwarded-For") or "")
        return req.remote_addr if caller is None else str(caller)

    def _caller(self, peer: str, forwarded: str) -> _Address | None:
        """Return the caller's address; None if the connection has none."""
        caller = _parsed(peer)
        claimed = forwarded.split(",")
        while caller is not None and claimed and self._trusts(caller):
            before = _parsed(claimed.pop())
            if before is None:
                break
            caller = before
        return caller

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def is_local(req: falcon.Request) -> bool:
    """Tell whether a program on this host sent the request itself, not a proxy on it for another host.

    A proxy is recognized by its forwarding headers; one that sets none counts as a local program.
    """
    peer = _parsed(req.remote_addr)
    return peer is not None and peer.is_loopback and not any(req.get_header(name) for name in _FORWARDED)


def _parsed(text: str) -> _Address | None:
    """Parse an address with or without a port; None if the text is no address."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
