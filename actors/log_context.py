"""Log context: the build and job that a thread works on, added to every record logged there."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_CURRENT: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))


def set_log_context(**pairs: str) -> None:
    """Set the log context of this thread, and of the worker threads that it starts from here on."""
    _CURRENT.set(pairs)


class LogContextFilter(logging.Filter):
    """Logging filter for handlers: adds the thread's context to a record, but overrides nothing in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        record.__dict__.update({**_CURRENT.get(), **record.__dict__})
        return True
