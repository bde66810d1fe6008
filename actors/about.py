"""Which build and job a thread is at work on, for every line that is logged there, whoever writes it."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AboutFilter", "be_about"]

_CURRENT: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))


def be_about(**pairs: str) -> None:
    """Say what this thread, and those that it starts on its behalf, are at work on from here on."""
    _CURRENT.set(pairs)


class AboutFilter(logging.Filter):
    """Gives every log record what its thread is about, where the record itself does not say; belongs on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        record.__dict__.update({**_CURRENT.get(), **record.__dict__})
        return True
