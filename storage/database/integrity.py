"""The integrity of the database: known damage, and the look at every page."""

from __future__ import annotations

import json
import logging
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.database.clock import Clock

_log = logging.getLogger(__name__)

_REPAIR = (
    "nothing is removed meanwhile; stop the service, see `ci-daemon doctor`, and restore a backup with"
    " `ci-daemon restore`"
)
_EVERY_SECONDS = 86_400
_OPERATIONS = 1000
_BURST_SECONDS = 0.01
_REST = 3
"""Rests are so many times as long as the work between them: a look takes a quarter of a processor."""
_CACHE_KIB = 1024
_BUSY_MILLISECONDS = 10_000
_FAULTS = 3
_SCHEMA = "sqlite_schema"


class Damage:
    """Known damage of a database file. Safe in any thread.

    A note beside the file tells it to other processes, such as `ci-daemon status`, and to the service's successor. It
    is about the file with its inode only: a restored database has another one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = path.with_name(f"{path.name}-damaged")
        self._told: str | None = None

    @property
    def message(self) -> str | None:
        """The damage and what to do, in words; None if none is known."""
        if self._told is not None:
            return self._told
        try:
            noted = json.loads(self._note.read_bytes())
            return str(noted["message"]) if noted["inode"] == self._path.stat().st_ino else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def tell(self, what: str) -> str:
        """Log and note the damage, once in this process; return the message."""
        message = f"the database is damaged ({what}): {_REPAIR}"
        if self._told is None:
            self._told = message
            _log.error("%s", message)
            with suppress(OSError):  # as while the disk is full: this process knows it
                self._note.write_text(json.dumps({"inode": self._path.stat().st_ino, "message": message}))
        return message

    def clear(self) -> None:
        """Forget what an earlier process noted; what this one met stays, even if a look finds nothing."""
        if self._told is None:
            with suppress(OSError):
                self._note.unlink(missing_ok=True)


class Integrity:
    """The look at every page of the database while the service runs: after its start, then once a day.

    It reads table by table on a connection of its own, since a snapshot that is held for long makes the write-ahead log
    grow, and rests between, since it is in no hurry.
    """

    def __init__(self, path: Path, known: Damage, clock: Clock) -> None:
        self._path = path
        self._known = known
        self._clock = clock
        self._looked_at: float | None = None

    @property
    def damage(self) -> str | None:
        """The damage and what to do, in words; None if none is known."""
        return self._known.message

    def look_if_due(self, rest: Callable[[float], bool]) -> None:
        """Check every page, unless that was done within a day; tell what is damaged. Blocks.

        Args:
            rest: waits for so many seconds and returns False, or True once the look shall end early.
        """
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _EVERY_SECONDS:
            return
        try:
            faults = self._faults(rest)
        except apsw.InterruptError:
            return
        except (apsw.CorruptError, apsw.NotADBError) as error:
            faults = [str(error)]
        except apsw.Error as error:
            _log.warning("the database could not be checked, which is tried again: %s", error)
            return
        self._looked_at = now
        if faults:
            self._known.tell("; ".join(faults[:_FAULTS]))
        else:
            self._known.clear()

    def _faults(self, rest: Callable[[float], bool]) -> list[str]:
        with closing(apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            connection.execute("PRAGMA query_only = on")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.set_progress_handler(_Pace(rest).step, _OPERATIONS)
            tables = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return [fault for table in (_SCHEMA, *tables) for fault in _table_faults(connection, table)]


class _Pace:
    """Rests between bursts of work, and its end."""

    def __init__(self, rest: Callable[[float], bool]) -> None:
        self._rest = rest
        self._since = time.monotonic()

    def step(self) -> bool:
        """Return whether the work shall end; SQLite calls it every so many operations."""
        worked = time.monotonic() - self._since
        if worked < _BURST_SECONDS:
            return False
        ends = self._rest(worked * _REST)
        self._since = time.monotonic()
        return ends


def _table_faults(connection: apsw.Connection, table: str) -> Iterator[str]:
    """Yield what is wrong with a table and its indexes; of the schema, also with the list of free pages."""
    quoted = table.replace("'", "''")
    for row in connection.execute(f"PRAGMA quick_check('{quoted}')"):
        if row[0] != "ok":
            yield " ".join(str(row[0]).split())
