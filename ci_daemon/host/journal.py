"""The service's own log: one line per event, on stderr or in systemd's journal.

In the journal the key-value pairs of a line are fields to search for, as in `journalctl CI_BUILD=…`; its own protocol
takes them.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import struct
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.settings import JournalSettings

_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}

# Below these levels the libraries log only what their own authors need.
_LIBRARY_LEVELS = {
    "paramiko": logging.CRITICAL,
    "pykka": logging.WARNING,
    "waitress": logging.WARNING,
    "waitress.queue": logging.ERROR,
    "peewee": logging.WARNING,
    "asyncio": logging.WARNING,
    "opentelemetry": logging.CRITICAL,
    "urllib3": logging.ERROR,
    "httpx": logging.WARNING,
}

_NO_VALUE = "-"
"""The value of a field that has none, such as the request's id outside of a request."""

_STANDARD_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

# Considered: `systemd-python` has no wheels, so each host would need a compiler and libsystemd's headers. `cysystemd`
# has some, for glibc alone and with 3.5 MB of libraries; its `send` reports success where journald does not listen.

SOCKET = Path("/run/systemd/journal/socket")

_FORBIDDEN = pattern(r"[^A-Z0-9_]")
_MAX_NAME = 64


class LineFormatter(logging.Formatter):
    """Formats a record as `TIME LEVEL logger: message key=value`.

    The pairs come from the caller's ``extra`` and from filters.

    Control characters are escaped, so that no user's text can forge a line. The time is in UTC; for the journal, which
    records it itself, it is left out.
    """

    def __init__(self, *, journald: bool) -> None:
        super().__init__()
        self._journald = journald

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by the lines of its traceback or stack, if any."""
        pairs = "".join(f" {key}={_value(value)}" for key, value in sorted(_fields(record).items()))
        text = f"{record.levelname.lower()} {record.name}: {_escaped(record.getMessage())}{pairs}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            text += "\n" + record.stack_info
        if self._journald:
            return text
        return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%f}Z {text}"


class JournalHandler(logging.Handler):
    """Sends records to the journal: the level as priority, the pairs as fields such as ``CI_BUILD``."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.setFormatter(LineFormatter(journald=True))

    def emit(self, record: logging.LogRecord) -> None:
        """Send the line. If the journal refuses it, the error and the message go to stderr."""
        try:
            fields = {f"CI_{key}": str(value) for key, value in _fields(record).items()}
            self._journal.send(
                {
                    "MESSAGE": self.format(record),
                    "PRIORITY": str(_PRIORITIES.get(record.levelno, 6)),
                    "SYSLOG_IDENTIFIER": "ci-daemon",
                    "LOGGER": record.name,
                    **fields,
                }
            )
        except Exception:  # noqa: BLE001 - the boundary of logging, as in every handler of the standard library
            self.handleError(record)


def under_journald(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether the stream is connected to the journal.

    systemd puts the device and inode of that stream into JOURNAL_STREAM.
    """
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def set_up(settings: JournalSettings, *filters: logging.Filter, stream: TextIO = sys.stderr) -> None:
    """Send the process's log to the stream or the journal, replacing all other handlers.

    Args:
        settings: the configuration.
        filters: add pairs to every line.
        stream: where lines go; the journal, if the stream is connected to it.
    """
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
    for name, level in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(level)


def silence() -> None:
    """Send the process's log nowhere from now on, so that its stream can be closed."""
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)


def set_level(settings: JournalSettings) -> None:
    """Change the level of the running log to that of the settings."""
    logging.getLogger().setLevel(settings.level.upper())


def _fields(record: logging.LogRecord) -> dict[str, object]:
    extra = record.__dict__.keys() - _STANDARD_ATTRIBUTES
    return {key: record.__dict__[key] for key in extra if record.__dict__[key] != _NO_VALUE}


def _escaped(text: str) -> str:
    if text.isprintable():  # as nearly all are
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _value(value: object) -> str:
    text = _escaped(str(value))
    return f'"{text}"' if " " in text or not text else text


@immutable
class Journal:
    """Sends entries, each a set of fields and values, to journald."""

    connection: socket.socket

    @classmethod
    def connect(cls, address: Path = SOCKET) -> Journal:
        """Connect to journald. Raises OSError if nothing listens."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            connection.connect(str(address))
        except OSError:
            connection.close()
            raise
        return cls(connection)

    def send(self, fields: Mapping[str, str]) -> None:
        """Send one entry, as a sealed memory file if it is too large for a datagram. Raises OSError."""
        entry = b"".join(_field(name, value) for name, value in fields.items())
        try:
            self.connection.sendall(entry)
        except OSError as error:
            if error.errno not in {errno.EMSGSIZE, errno.ENOBUFS}:
                raise
            self._send_memfd(entry)

    def _send_memfd(self, entry: bytes) -> None:
        descriptor = os.memfd_create("journal-entry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with closing(os.fdopen(descriptor, "wb", buffering=0)) as file:
            file.write(entry)
            seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
            socket.send_fds(self.connection, [b""], [descriptor])


def _field(name: str, value: str) -> bytes:
    """Encode a field with the length of its value, so that no value can forge another field."""
    key = _FORBIDDEN.sub("_", name.upper())[:_MAX_NAME].encode()
    content = value.encode(errors="backslashreplace")
    return key + b"\n" + struct.pack("<Q", len(content)) + content + b"\n"
