"""URLs that the service calls. Pure."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_PLAIN = re.compile(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
_NEVER = re.compile(r"[\\\"<>^`{|}@]")
"""Characters that parsers disagree about; "@" would put a name before the host."""

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)


def is_secure_url(text: str) -> bool:
    """Tell whether a URL may be sent a secret: https, or http on this host's own loopback."""
    parts = _parts(text)
    return parts is not None and (parts.scheme == "https" or _is_loopback(parts))


def is_loopback_url(text: str) -> bool:
    """Tell whether a URL names this host's own loopback."""
    parts = _parts(text)
    return parts is not None and _is_loopback(parts)


def _parts(text: str) -> SplitResult | None:
    """Return the parts of an http or https URL; None for others, and where parsers may disagree."""
    if not _PLAIN.fullmatch(text) or _NEVER.search(text):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    if port == 0 or not (_HOST.fullmatch(host) or _is_address(host)):
        return None
    return parts


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
