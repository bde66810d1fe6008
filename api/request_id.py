"""The name of a request: in its answer, in its envelope, and in every log line that is written on its behalf."""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar

__all__ = ["RequestIdFilter", "enter_request"]

_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{20,200}", re.ASCII)
_CURRENT: ContextVar[str] = ContextVar("request_id", default="-")


def enter_request(given: str | None) -> str:
    """Name the request that this thread now serves: by the caller's own ``X-Request-Id`` where that is usable."""
    request_id = given if given is not None and _ACCEPTED.fullmatch(given) else secrets.token_hex(16)
    _CURRENT.set(request_id)
    return request_id


class RequestIdFilter(logging.Filter):
    """Gives every log record a ``request_id`` attribute; belongs on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, with the request's name on it."""
        record.request_id = _CURRENT.get()
        return True
