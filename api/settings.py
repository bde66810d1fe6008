"""The configuration section of the HTTP server, with its defaults."""

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
    """Section ``[http]``: where the API listens and how much it takes on at once.

    ``listen`` is ``HOST:PORT``; an IPv6 host stands in brackets, port 0 is any free port. ``base_url`` is the address
    that callers use where a proxy stands in front, without a trailing slash. A log stream or a waiting log request
    holds one of ``threads`` while it lasts, and so does a request for a build while that is rendered: at most
    ``max_streams`` of them do, a quarter of which are kept from logs; the rest of the threads always serve short
    requests. One account, or one address without an account, follows at most ``max_streams_per_reader`` logs at once.
    ``max_body_bytes`` is for requests that create builds, which may bring an archive; any other body is at most 64 KiB.
    ``trusted_proxies`` are addresses and networks whose ``X-Forwarded-For`` is believed. ``metrics_token`` is what
    `/metrics` is read with from elsewhere than this host; without one it is not. Sizes are bytes, times seconds.
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
        """The address of the service as callers write it, without a trailing slash."""
        return (self.base_url or f"http://{self.listen}").rstrip("/")


@dataclass(frozen=True, slots=True)
class RateLimitSettings:
    """Section ``[rate_limits]``: requests a minute where credentials are given out or tried, and limits by account.

    Somebody who was quiet may send a minute's worth at once. Command lines that wait for a person to sign in ask once a
    second, so the default carries twenty of them behind one address. ``tracked`` is how many addresses and accounts are
    remembered. One account sends at most ``invites_per_day`` and owns at most ``organizations_per_account``.
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
