"""The work of statements, which no load of the machine changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from storage.database.connection import Database


@contextmanager
def counted_work(database: Database) -> Iterator[list[int]]:
    """Count the instructions of SQLite in a body, in hundreds."""
    connection, counted = database.connection(), [0]

    def count() -> bool:
        counted[0] += 1
        return False

    connection.set_progress_handler(count, 100)
    yield counted
    connection.set_progress_handler(None)
