"""The service's own log: one line an event, on stderr or, under systemd, in the journal with its pairs as fields."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from ci_daemon.journald import SOCKET, Journal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JournalHandler", "JournalSettings", "LineFormatter", "set_level", "set_up", "under_journald"]

_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}

# What these say below the given level is of use to their own authors.
_QUIET = {
    "paramiko": logging.CRITICAL,
    "pykka": logging.WARNING,
    "waitress": logging.WARNING,
    "waitress.queue": logging.ERROR,
    "peewee": logging.WARNING,
    "asyncio": logging.WARNING,
    "opentelemetry": logging.CRITICAL,
    "urllib3": logging.ERROR,
}

_NOTHING = "-"
"""What filters give a pair that has no value here, such as a request's name outside of one."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Section ``[journal]``: from which level on it writes its own log: "debug", "info", "warning" or "error"."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class LineFormatter(logging.Formatter):
    """`TIME LEVEL logger: message key=value`, where the pairs are what the caller and filters gave as ``extra``.

    Control characters are escaped, so that no user's text can forge a line. The time is in UTC; where the journal keeps
    it, the line does not.
    """

    def __init__(self, *, journald: bool) -> None:
        super().__init__()
        self._journald = journald

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, and a traceback or a stack, where there is one, on lines of its own below."""
        pairs = "".join(f" {key}={_value(value)}" for key, value in sorted(_pairs(record).items()))
        text = f"{record.levelname.lower()} {record.name}: {_escaped(record.getMessage())}{pairs}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            text += "\n" + record.stack_info
        if self._journald:
            return text
        return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%f}Z {text}"


class JournalHandler(logging.Handler):
    """Sends each line to the journal with its level as priority and its pairs as fields, such as ``CI_BUILD``."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.setFormatter(LineFormatter(journald=True))

    def emit(self, record: logging.LogRecord) -> None:
        """Send the line; what the journal does not take goes to stderr."""
        try:
            fields = {f"CI_{key}": str(value) for key, value in _pairs(record).items()}
            self._journal.send(
                {
                    "MESSAGE": self.format(record),
                    "PRIORITY": str(_PRIORITIES.get(record.levelno, 6)),
                    "SYSLOG_IDENTIFIER": "ci-daemon",
                    "LOGGER": record.name,
                    **fields,
                }
            )
        except Exception:  # noqa: BLE001 - the rim of logging, as in every handler of the standard library
            self.handleError(record)


def under_journald(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether the stream goes to the journal, as systemd says it: JOURNAL_STREAM is the stream's own device."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def set_up(settings: JournalSettings, *filters: logging.Filter, stream: TextIO = sys.stderr) -> None:
    """Send the process's log to the stream, in this form and no other; filters add pairs to every line."""
    handler: logging.Handler
    if under_journald(stream, os.environ) and SOCKET.exists():
        handler = JournalHandler(Journal.connect())
    else:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(LineFormatter(journald=False))
    for each in filters:
        handler.addFilter(each)
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


def set_level(settings: JournalSettings) -> None:
    """Write from here on what the settings say."""
    logging.getLogger().setLevel(settings.level.upper())


def _pairs(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD and value != _NOTHING}


def _escaped(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _value(value: object) -> str:
    text = _escaped(str(value))
    return f'"{text}"' if " " in text or not text else text
