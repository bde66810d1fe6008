"""Copies of the database, consistent while others write to it, and their integrity check."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import apsw

from storage.database.clock import SystemClock
from storage.database.connection import Database
from storage.database.schema import APPLICATION_ID, migrate, migrations, schema_of_release
from storage.errors import DatabaseUnreadable, NotInitialized
from storage.files.kinds import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.files.kinds import FileKind

_COUNTED = ("organizations", "users", "pipelines", "builds", "jobs", "ledger_entries")
_PAGES_PER_STEP = 1024
_BUSY_SECONDS = 10


class FrozenDatabase:
    """The database as of one instant: an open read transaction, unaffected by later writes."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @property
    def schema_version(self) -> int:
        """Number of the last migration applied to the database."""
        return _number(self._connection, "PRAGMA user_version")

    def counts(self) -> dict[str, int]:
        """Return the row counts of the tables that an owner asks for, by table."""
        return {table: _number(self._connection, f"SELECT count(*) FROM {table}") for table in _COUNTED}  # noqa: S608 - names of our own

    def files(self, kind: FileKind) -> Iterator[str]:
        """Yield the paths, relative to the state directory, of a kind's files that rows name.

        Some of the files may not exist. The database must have this release's schema.
        """
        if kind.rows is not None:
            for row in self._connection.execute(kind.rows):
                yield f"{kind.folder}/{kind.name(*map(str, row))}"

    def providers(self) -> set[str]:
        """Return the providers that organizations have chosen.

        The database must have this release's schema.
        """
        found = self._connection.execute("SELECT DISTINCT provider FROM organizations WHERE provider IS NOT NULL")
        return {str(row[0]) for row in found}

    def copy_to(self, target: Path, progress: Callable[[int], None]) -> None:
        """Copy the database to a new file that nothing else has open; tell ``progress`` the bytes copied."""
        size = _number(self._connection, "PRAGMA page_size")
        with closing(apsw.Connection(str(target))) as copy, copy.backup("main", self._connection, "main") as backup:
            while not backup.done:
                left = backup.remaining
                backup.step(_PAGES_PER_STEP)
                progress(max(0, left - backup.remaining) * size)


@contextmanager
def frozen(directory: Path) -> Iterator[FrozenDatabase]:
    """Open a read transaction on the database of a state directory, at any schema version.

    Raises NotInitialized or DatabaseUnreadable.
    """
    path = directory / DATABASE
    if not path.is_file():
        raise NotInitialized(directory)
    with _translated_errors(path), closing(_opened(path)) as connection:
        connection.set_busy_timeout(_BUSY_SECONDS * 1000)
        connection.execute("BEGIN")
        if _number(connection, "SELECT count(*) FROM sqlite_schema") == 0:
            raise NotInitialized(directory)
        yield FrozenDatabase(connection)


@contextmanager
def up_to_date(database: FrozenDatabase, folder: Path) -> Iterator[FrozenDatabase]:
    """Yield a database with this release's schema: the given one, or a migrated copy in a new folder.

    Raises SchemaTooNew.
    """
    if database.schema_version == schema_of_release():
        yield database
        return
    folder.mkdir(mode=0o700)
    database.copy_to(folder / DATABASE, lambda _bytes: None)
    with closing(Database(folder / DATABASE, SystemClock())) as copy:
        migrate(copy, migrations())
    with frozen(folder) as migrated:
        yield migrated


def check_database(path: Path) -> None:
    """Check every page, index and reference of a database that nothing else has open.

    Raises DatabaseUnreadable if it is damaged or of another program.
    """
    with _translated_errors(path), closing(_opened(path)) as connection:
        if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
            raise DatabaseUnreadable(f"{path.name} belongs to another program: choose another file")
        faults = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
        if faults != ["ok"]:
            raise DatabaseUnreadable(f"{path.name} is damaged: {'; '.join(faults)}")
        if broken := list(connection.execute("PRAGMA foreign_key_check")):
            raise DatabaseUnreadable(f"{path.name} has {len(broken)} rows that refer to missing rows: {broken[:3]}")


def _opened(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise DatabaseUnreadable(f"cannot read {path}: {error}") from error


def _number(connection: apsw.Connection, sql: str) -> int:
    return next(int(row[0]) for row in connection.execute(sql))
