"""The configuration section of the HTTP server, with its defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["HttpSettings"]

_HIGHEST_PORT = 65535
_URL = re.compile(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://[^\s/?#*]+/?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Section ``[http]``: where the API listens and how much it takes on at once.

    ``listen`` is ``HOST:PORT``; an IPv6 host stands in brackets, port 0 is any free port. ``base_url`` is the address
    that callers use where a proxy stands in front, without a trailing slash. A log stream or a waiting log request
    holds one of ``threads`` while it lasts: at most ``max_streams`` of them do, the rest of the threads always serve
    short requests. Sizes are bytes, times seconds.
    """

    listen: str = "127.0.0.1:8800"
    base_url: str | None = None
    threads: int = 64
    max_streams: int = 48
    max_connections: int = 800
    max_body_bytes: int = 12 * 2**20
    max_header_bytes: int = 64 * 2**10
    receive_timeout: float = 120.0
    idle_timeout: float = 120.0
    stop_timeout: float = 5.0
    cors_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_connections", "max_body_bytes", "max_header_bytes", "receive_timeout", "idle_timeout"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.max_streams < self.threads:
            raise ValueError(f"max_streams must be from 1 to {self.threads - 1}, below threads ({self.threads})")
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or int(port) > _HIGHEST_PORT:
            raise ValueError(f'listen must be HOST:PORT, for example "127.0.0.1:8800", not "{self.listen}"')
        if self.base_url is not None and not _URL.fullmatch(self.base_url):
            raise ValueError(f'base_url must be such as "https://ci.example.org", not "{self.base_url}"')
        for origin in self.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f'cors_origins must hold origins such as "https://app.example.org", not "{origin}"')

    @property
    def url(self) -> str:
        """The address of the service as callers write it, without a trailing slash."""
        return (self.base_url or f"http://{self.listen}").rstrip("/")
