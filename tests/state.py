"""State directories for tests, copied because migrations take long, and SQL in their databases."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from storage import BillingSettings, Clock, Storage, SystemClock, Vault
from storage.database.connection import Database
from storage.files.kinds import DATABASE, KEY


def new_storage(
    directory: Path, clock: Clock, billing: BillingSettings | None = None, database: Database | None = None
) -> Storage:
    """Return the storage of a new state directory, as `Storage.create` does; all have the same key.

    ``database`` is one of `database_in` the same directory.
    """
    shutil.copytree(_template().name, directory, dirs_exist_ok=True)
    return storage_in(directory, clock, billing, database)


def storage_in(
    directory: Path, clock: Clock, billing: BillingSettings | None = None, database: Database | None = None
) -> Storage:
    """Return the storage of a state directory that `new_storage` made, or of a copy."""
    vault = Vault.of_service(directory / KEY, os.environ)
    billing, database = billing or BillingSettings(), database or database_in(directory, clock)
    return Storage(directory, database, vault, billing, sys.maxsize, clock)


def database_in(directory: Path, clock: Clock, busy_seconds: float = 10.0) -> Database:
    """Return the database of a state directory, which may be made later."""
    return Database(directory / DATABASE, clock, busy_seconds)


def run_sql(directory: Path, sql: str, **slots: Any) -> list[tuple[Any, ...]]:
    """Run statements on the database of a state directory in a connection of their own; return their rows."""
    with closing(apsw.Connection(str(directory / DATABASE))) as connection:
        connection.set_busy_timeout(10_000)
        return list(connection.execute(sql, slots))


@cache
def _template() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="ci-daemon-state-")
    Path(folder.name).rmdir()
    Storage.create(Path(folder.name), SystemClock()).close()
    return folder
