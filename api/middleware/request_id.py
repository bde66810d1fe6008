"""Request ids, in responses, error envelopes and all log lines of a request."""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar

_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{20,200}", re.ASCII)
_CURRENT: ContextVar[str] = ContextVar("request_id", default="-")


def enter_request(given: str | None) -> str:
    """Set and return the id of the request that this thread now serves.

    It is the caller's own ``X-Request-Id`` if that is valid, else a new one.
    """
    request_id = given if given is not None and _ACCEPTED.fullmatch(given) else secrets.token_hex(16)
    _CURRENT.set(request_id)
    return request_id


class RequestIdFilter(logging.Filter):
    """Adds ``request_id`` to every log record; attach it to a handler, not to a logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, with the request's id."""
        record.request_id = _CURRENT.get()
        return True
