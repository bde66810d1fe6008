"""Damage of a database's file, as a failing disk leaves it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

_PAGE_BYTES = 4096


def damage_page(database: Path, name: str) -> None:
    """Overwrite the root page of a table or an index with garbage, as no write of SQLite's would do."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,))
    with database.open("r+b") as file:
        file.seek((int(page) - 1) * _PAGE_BYTES)
        file.write(b"\xa5" * _PAGE_BYTES)
