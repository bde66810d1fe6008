"""The SQLite database: one connection per thread, and one writer at a time."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import peewee
from playhouse.apsw_ext import APSWDatabase

from storage.database.clock import SECOND, Timeline, to_micros
from storage.database.group_sync import GroupSync
from storage.database.integrity import Damage
from storage.errors import DatabaseBusy, DatabaseDamaged, DatabaseGone, DatabaseUnavailable, StorageClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from storage.database.clock import Clock

_STUCK_SECONDS = 1
_TURN_SECONDS = 0.5
_MAX_IDLE = 8
_DAMAGED = (apsw.CorruptError, apsw.NotADBError)
_UNAVAILABLE = (apsw.FullError, apsw.ReadOnlyError, apsw.IOError, apsw.PermissionsError)
_REPLACED = (
    "the database's file was removed or replaced meanwhile: put it back, or stop the service and restore a backup"
)
_PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "normal",
    "foreign_keys": "on",
    "trusted_schema": "off",
    "journal_size_limit": 64 * 1024 * 1024,
}


class Database:
    """One SQLite file, safe in any thread.

    Reads never wait, because WAL gives each of them a snapshot. Writes of this process wait for each other at a lock;
    the one that holds it waits at most ``busy_seconds`` for SQLite's lock, which other processes may hold. A write is
    on the disk when it returns (engine.md, "After a crash"); others may read it a moment before,
    and call `await_disk` before they tell anybody outside of it.
    """

    def __init__(self, path: Path, clock: Clock, busy_seconds: float = 10.0) -> None:
        """Store the path; the first statement opens the file, and creates it if it does not exist."""
        self._clock = clock
        self._busy_seconds = busy_seconds
        self.path = path
        self.damage = Damage(path)
        self._connections = _Connections(str(path), busy_seconds)
        self._syncs = GroupSync(path.with_name(f"{path.name}-wal"))
        self._writer = threading.RLock()
        self._errors = _Errors(busy_seconds, self.damage)
        self._begun = threading.local()
        self._blocked_since: float | None = None

    @cached_property
    def timeline(self) -> Timeline:
        """Durations between stored instants; a service reads it first at its start."""
        return Timeline(self._clock)

    def connection(self) -> apsw.Connection:
        """Return this thread's connection, which is opened when it is first asked for."""
        connection: apsw.Connection = self._connections.connection()
        return connection

    def now(self) -> int:
        """Return the clock's wall time in microseconds since the epoch, as the tables hold it.

        Within one ``write`` it is constant, so that all its changes have the same instant.
        """
        begun: int | None = getattr(self._begun, "at", None)
        return to_micros(self._clock.now()) if begun is None else begun

    def ago(self, micros: int) -> int:
        """Return the instant before which everything stored is older than a span, in any case."""
        return to_micros(self.timeline.ago(timedelta(microseconds=micros)))

    def uptime(self) -> int:
        """Return the clock's monotonic time in whole microseconds."""
        return round(self._clock.monotonic() * SECOND)

    def execute(self, sql: str, slots: Mapping[str, Any] | None = None) -> apsw.Cursor:
        """Run one statement in this thread's connection, with values for its ``:name`` slots.

        Raises DatabaseUnavailable if the disk is full, read-only or broken, or the process has too many open files.
        """
        with self._errors:
            # Not by peewee, which takes as long for its own part as SQLite does for a short query.
            cursor: apsw.Cursor = self._connections.connection().execute(sql, slots or None)
            return cursor

    def execute_many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once for each row. Raises DatabaseUnavailable."""
        with self._errors:
            self.connection().executemany(sql, rows)

    def changes(self) -> int:
        """Return how many rows this thread's last statement changed."""
        changed: int = self.connection().changes()
        return changed

    def last_id(self) -> int:
        """Return the id of the row that this thread inserted last."""
        row_id: int = self.connection().last_insert_rowid()
        return row_id

    @contextmanager
    def write(self) -> Iterator[None]:
        """Run the body in one transaction: commit at its end, roll back on an exception.

        Returns when the changes are on the disk. Inside another ``write`` of the same thread it is part of that
        transaction. Raises DatabaseBusy if others hold the database for too long, DatabaseGone if the file was removed
        or replaced, and DatabaseUnavailable.
        """
        self._take_turn()
        committed: int | None = None
        try:
            with self._errors:
                connection = self.connection()
            if connection.in_transaction:
                yield
                return
            with self._transaction(connection, self._begin):
                yield
            committed = self._commit(connection)
        finally:
            self._writer.release()
        if not getattr(self._begun, "ahead", False):
            self._syncs.wait(committed)

    @contextmanager
    def _transaction(self, connection: apsw.Connection, begin: Callable[[apsw.Connection], None]) -> Iterator[None]:
        """Begin a transaction, which the caller commits; roll back on an exception."""
        self._connections.check_file()
        begin(connection)
        try:
            self._begun.at = self.now()
            yield
        except BaseException:
            if connection.in_transaction:
                self.execute("ROLLBACK")
            raise
        finally:
            self._begun.at = None

    def _commit(self, connection: apsw.Connection) -> int:
        """Commit, and return the number that the sync of the commit has; roll back if it fails."""
        try:
            self._syncs.begin()
            try:
                self.execute("COMMIT")
            finally:
                number = self._syncs.end()
        except BaseException:
            if connection.in_transaction:
                self.execute("ROLLBACK")
            raise
        return number

    def await_disk(self, later: Callable[[Callable[[], None]], bool] | None = None) -> None:
        """Return when all that this thread read or wrote is on the disk, or ``later`` waits for it.

        Not within a `write`. A wait is offered to ``later`` first, which returns True if it takes it. Raises
        DatabaseUnavailable, as the wait does.
        """
        self._begun.ahead = False
        self._syncs.wait(later=later)

    def write_ahead(self) -> None:
        """Let this thread's writes return before they are on the disk, until it calls `await_disk`."""
        self._begun.ahead = True

    def _take_turn(self) -> None:
        """Wait for this process's writer lock, unless its holder waits for another process.

        Otherwise a process that holds the database would block one thread after another, also those that serve reads.
        """
        while not self._writer.acquire(timeout=0 if self.is_stuck() else _TURN_SECONDS):
            if self.is_stuck():
                raise DatabaseBusy("another process holds the database: try again")

    def is_stuck(self) -> bool:
        """Tell whether another process has kept this one from writing for long."""
        since = self._blocked_since
        return since is not None and self._clock.monotonic() - since > _STUCK_SECONDS

    def _begin(self, connection: apsw.Connection) -> None:
        """Begin, and wait for another process if SQLite says that one has the lock.

        Only then is the wait noted: that a thread of a busy host is slow to begin says nothing about others.
        """
        connection.set_busy_timeout(0)
        try:
            self._begin_at_once(connection)
        except DatabaseBusy:
            self._blocked_since = self._clock.monotonic()
        finally:
            connection.set_busy_timeout(round(self._busy_seconds * 1000))
        if self._blocked_since is not None:
            try:
                self._begin_at_once(connection)
            finally:
                self._blocked_since = None

    def _begin_at_once(self, _: apsw.Connection) -> None:
        self.execute("BEGIN IMMEDIATE")

    @contextmanager
    def write_at_once(self) -> Iterator[None]:
        """Do optional work as in `write`, but raise DatabaseBusy instead of waiting for another writer.

        A power cut may take it back: it is on the disk with the next `write`.
        """
        if not self._writer.acquire(blocking=False):
            raise DatabaseBusy("another thread writes to the database: try again")
        try:
            with self._errors:
                connection = self.connection()
            if connection.in_transaction:
                yield
                return
            connection.set_busy_timeout(0)
            try:
                with self._transaction(connection, self._begin_at_once):
                    yield
                    self.execute("COMMIT")
            finally:
                connection.set_busy_timeout(round(self._busy_seconds * 1000))
        finally:
            self._writer.release()

    def let_go(self) -> None:
        """Give this thread's connection to others, before the thread waits for long. Not within a `write`."""
        self._connections.let_go()

    def close(self) -> None:
        """Close every thread's connection. Called when no other thread uses the database. Idempotent."""
        self._connections.close_all()


class _Errors:
    """A context in which errors of the database become those of the storage. Threads share it.

    Each statement enters it, so it is no generator: that would cost as much as the statement's own preparation.
    """

    def __init__(self, busy_seconds: float, damage: Damage) -> None:
        self._busy_seconds = busy_seconds
        self._damage = damage

    def __enter__(self) -> None:
        """Nothing is kept of who enters."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> None:
        """Raise what the error means: DatabaseBusy, DatabaseDamaged, DatabaseGone or DatabaseUnavailable."""
        if not isinstance(error, peewee.DatabaseError | apsw.Error):
            return
        cause: BaseException | None = error
        while isinstance(cause, peewee.DatabaseError):
            cause = cause.__context__
        if isinstance(cause, apsw.BusyError):
            busy = f"another process has held the database for {self._busy_seconds:g} s: try again"
            raise DatabaseBusy(busy) from error
        if isinstance(cause, _DAMAGED):
            raise DatabaseDamaged(self._damage.tell(str(cause))) from error
        if isinstance(cause, apsw.CantOpenError):
            raise DatabaseGone(f"the database cannot be opened now: {cause}") from error
        if isinstance(cause, _UNAVAILABLE):
            raise DatabaseUnavailable(f"the database cannot be used now: {cause}") from error


class _Connections(APSWDatabase):  # type: ignore[misc] # playhouse comes without types
    """Peewee's thread-local connections, reused by new threads when old ones end.

    Opening a connection costs more than most threads' queries. All connections are to the file that the first one
    opened or created.
    """

    def __init__(self, path: str, busy_seconds: float) -> None:
        self._closed = False
        self._idle: deque[apsw.Connection] = deque(maxlen=_MAX_IDLE)
        self._local = threading.local()
        self._file = Path(path)
        self._identity: tuple[int, int] | None = None
        self._opened: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        super().__init__(path, pragmas=_PRAGMAS, timeout=busy_seconds)

    def _connect(self) -> apsw.Connection:
        if self._closed:
            raise StorageClosed("the storage is closed: open it again before using it")
        if self._identity is not None:
            self.check_file()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = super()._connect()
            # Without it, SQLite plans a statement anew for each value that decides about a partial index, which takes
            # five times as long as to run it.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            self._opened.add(connection)
        self._identity = self._identity or self._identify()
        self._local.connection = _ThreadConnection(self, connection)
        return connection

    def let_go(self) -> None:
        """Let the thread be without a connection until its next statement."""
        self._state.reset()
        self._local.__dict__.clear()

    def take_back(self, connection: apsw.Connection) -> None:
        """Keep an ended thread's connection for another thread; the oldest one closes if there are too many."""
        if not self._closed and not connection.in_transaction:
            self._idle.append(connection)

    def check_file(self) -> None:
        """Raise DatabaseGone if the file at the path is missing or another one."""
        if self._identify() != self._identity:
            raise DatabaseGone(_REPLACED)

    def _identify(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def close_all(self) -> None:
        self._closed = True
        self.close()
        for connection in list(self._opened):
            connection.close()


class _ThreadConnection:
    """A thread-local object that returns the thread's connection when the thread ends."""

    def __init__(self, connections: _Connections, connection: apsw.Connection) -> None:
        self._connections = connections
        self._connection = connection

    def __del__(self) -> None:
        self._connections.take_back(self._connection)
