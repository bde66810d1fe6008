"""The configuration sections of the HTTP server and its rate limits, with their defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from ipaddress import ip_network

__all__ = ["HttpSettings", "RateLimitSettings"]

_HIGHEST_PORT = 65535
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,}", re.ASCII)
_URL = re.compile(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://[^\s/?#*]+/?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Section ``[http]``: the address and the limits of the API.

    ``listen`` is ``HOST:PORT``; an IPv6 host is written in brackets, and port 0 is any free port. ``base_url`` is the
    address that callers use if a proxy stands in front of the service, without a trailing slash.

    Log streams, waiting log requests and requests for builds that are being rendered each hold one of ``threads`` while
    they last. At most ``max_streams`` of them run at once, and a quarter of those is reserved for builds; the other
    threads always serve short requests. One account, or one address without an account, follows at most
    ``max_streams_per_reader`` logs at once. When ``max_connections`` are nearly reached, the connections whose
    clients keep the service waiting longest are closed.

    ``max_body_bytes`` is for requests that create builds, because they may bring an archive; any other body has at most
    64 KiB. A request must arrive within ``receive_timeout``; an idle connection is closed after ``idle_timeout``. When
    the service stops, running requests have ``stop_timeout`` to finish.

    ``cors_origins`` are the origins whose web pages may call the API. ``trusted_proxies`` are the addresses and
    networks whose ``X-Forwarded-For`` is believed. ``metrics_token`` is the token to read `/metrics` from other hosts;
    if it is empty, only this host can read it. Sizes are in bytes, times in seconds.
    """

    listen: str = "127.0.0.1:8800"
    base_url: str | None = field(default=None, metadata={"example": "https://ci.example.org"})
    threads: int = 192
    max_streams: int = 160
    max_streams_per_reader: int = 30
    max_connections: int = 800
    max_body_bytes: int = 12 * 2**20
    max_header_bytes: int = 64 * 2**10
    receive_timeout: float = 120.0
    idle_timeout: float = 120.0
    stop_timeout: float = 5.0
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    metrics_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for name in (
            "max_streams_per_reader",
            "max_connections",
            "max_body_bytes",
            "max_header_bytes",
            "receive_timeout",
            "idle_timeout",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.max_streams < self.threads:
            raise ValueError(f"max_streams must be from 1 to {self.threads - 1}, below threads ({self.threads})")
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or int(port) > _HIGHEST_PORT:
            raise ValueError(f'listen must be HOST:PORT, for example "127.0.0.1:8800", not "{self.listen}"')
        if self.base_url is not None and not _URL.fullmatch(self.base_url):
            raise ValueError(f'base_url must be such as "https://ci.example.org", not "{self.base_url}"')
        self._check_who_is_believed()

    def _check_who_is_believed(self) -> None:
        if self.metrics_token and not _TOKEN.fullmatch(self.metrics_token):
            raise ValueError("metrics_token must be 16 or more letters, digits or any of -._~+/=, without spaces")
        for origin in self.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f'cors_origins must hold origins such as "https://app.example.org", not "{origin}"')
        for proxy in self.trusted_proxies:
            if not _is_network(proxy):
                raise ValueError(f'trusted_proxies must hold such as "10.0.0.7" or "10.0.0.0/24", not "{proxy}"')

    @property
    def url(self) -> str:
        """The address of the service as callers use it, without a trailing slash."""
        return (self.base_url or f"http://{self.listen}").rstrip("/")


@dataclass(frozen=True, slots=True)
class RateLimitSettings:
    """Section ``[rate_limits]``: limits where credentials are issued or tried, and limits per account.

    An address sends at most ``address_per_minute`` requests to endpoints that issue or try credentials, and an account
    at most ``account_per_minute``; those of a whole minute may come at once. A command line that waits for a person to
    sign in asks once a second, so the default allows 20 of them behind one address. ``failures_per_minute`` limits the
    bad tokens from one address, on any endpoint. ``tracked`` is the number of addresses, and of accounts, that are
    remembered.

    One account sends at most ``invites_per_day`` and owns at most ``organizations_per_account``.
    """

    address_per_minute: int = 1200
    account_per_minute: int = 60
    failures_per_minute: int = 120
    tracked: int = 10_000
    invites_per_day: int = 100
    organizations_per_account: int = 50

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ValueError(f"{limit.name} must be at least 1")


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True
