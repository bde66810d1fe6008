"""The service's own log: one line an event on stderr, with the level where journald looks for it."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JournalSettings", "LineFormatter", "set_up", "under_journald"]

_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}

# What these say below the given level is of use to their own authors.
_QUIET = {
    "paramiko": logging.CRITICAL,
    "pykka": logging.WARNING,
    "waitress": logging.WARNING,
    "waitress.queue": logging.ERROR,
    "peewee": logging.WARNING,
    "asyncio": logging.WARNING,
}

_NOTHING = "-"
"""What filters give a pair that has no value here, such as a request's name outside of one."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Section ``[journal]``: from which level on it writes its own log: "debug", "info", "warning" or "error"."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class LineFormatter(logging.Formatter):
    """`LEVEL logger: message key=value`, where the pairs are what the caller gave as ``extra``.

    Control characters are escaped, so that no user's text can forge a line. Under journald every line starts with
    its priority (``<3>``) and journald keeps the time; elsewhere it starts with the time in UTC.
    """

    def __init__(self, *, journald: bool) -> None:
        super().__init__()
        self._journald = journald

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, and a traceback, where there is one, on lines of its own below it."""
        pairs = "".join(
            f" {key}={_value(value)}"
            for key, value in sorted(record.__dict__.items())
            if key not in _STANDARD and value != _NOTHING
        )
        text = f"{record.levelname.lower()} {record.name}: {_escaped(record.getMessage())}{pairs}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + self.formatException(record.exc_info)
        if self._journald:
            priority = f"<{_PRIORITIES.get(record.levelno, 6)}>"
            return "\n".join(priority + line for line in text.splitlines())
        return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%f}Z {text}"


def under_journald(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether the stream goes to the journal, as systemd says it: JOURNAL_STREAM is the stream's own device."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def set_up(settings: JournalSettings, *filters: logging.Filter, stream: TextIO = sys.stderr) -> None:
    """Send the process's log to the stream, in this form and no other; filters add pairs to every line."""
    handler = logging.StreamHandler(stream)
    for each in filters:
        handler.addFilter(each)
    handler.setFormatter(LineFormatter(journald=under_journald(stream, os.environ)))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


def _escaped(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _value(value: object) -> str:
    text = _escaped(str(value))
    return f'"{text}"' if " " in text or not text else text
