"""URLs of servers, as people write them."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_http_url(url: str) -> bool:
    """Tell whether a URL consists of scheme, valid host, port and path, and nothing else."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        extras = parts.port == 0 or parts.username or parts.query or parts.fragment
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host) and url.isprintable() and " " not in url and not extras


def is_this_host(url: str) -> bool:
    """Tell whether a URL is of the loopback."""
    return urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}
