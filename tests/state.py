"""State directories for tests, copied because migrations take long, and SQL in their databases."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from storage import BillingSettings, Clock, Storage, SystemClock, Vault
from storage.database.connection import Database
from storage.database.statements import Query, Write
from storage.files.kinds import DATABASE, KEY
from tests.memory_folder import memory_folder


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
    return _storage_class()(directory, database, vault, billing, sys.maxsize, clock)


def database_in(directory: Path, clock: Clock, busy_seconds: float = 10.0) -> Database:
    """Return the database of a state directory, which may be made later."""
    return Database(directory / DATABASE, clock, busy_seconds)


def run_sql(directory: Path, sql: str, **slots: Any) -> list[tuple[Any, ...]]:
    """Run statements on the database of a state directory in a connection of their own; return their rows."""
    with closing(apsw.Connection(str(directory / DATABASE))) as connection:
        connection.set_busy_timeout(10_000)
        return list(connection.execute(sql, slots))


PARTS = tuple(name for name, each in vars(Storage).items() if isinstance(each, cached_property))
"""The names of a storage's parts."""


def statements_of(noun: str, part: object, seen: set[int] | None = None) -> Iterator[tuple[str, Query[Any] | Write]]:
    """Yield the statements of a part by name, as "queue._head"; none of what is in ``seen`` already."""
    seen = set() if seen is None else seen
    if id(part) in seen or not hasattr(part, "__dict__"):
        return
    seen.add(id(part))
    for name, value in vars(part).items():
        if isinstance(value, Query | Write):
            yield f"{noun}.{name}", value
        elif isinstance(value, list):
            yield from ((f"{noun}.{name}[{at}]", each) for at, each in enumerate(value) if isinstance(each, Write))
        elif type(value).__module__.startswith("storage."):
            yield from statements_of(f"{noun}.{name}", value, seen)


@cache
def _storage_class() -> type[Storage]:
    """Return a storage whose statements have the SQL that the first one of this process compiled.

    To compile it again for each storage would be a fifth of a test's time. That it is the same in all of them is a
    test in `tests/storage/database/test_statements.py`.
    """
    compiled: dict[str, str] = {}

    def compiled_once(name: str) -> cached_property[Any]:
        make: Callable[[Storage], Any] = vars(Storage)[name].func

        def part(storage: Storage) -> object:
            made = make(storage)
            for path, statement in statements_of(name, made, storage.__dict__.setdefault("_seen", set())):
                if path not in compiled:
                    compiled[path] = statement.sql
                vars(statement)["sql"] = compiled[path]
            return made

        return cached_property(part)

    parts = {name: compiled_once(name) for name in PARTS}
    return type("CompiledStorage", (Storage,), parts)


@cache
def _template() -> TemporaryDirectory[str]:
    folder = memory_folder()
    Storage.create(Path(folder.name), SystemClock()).close()
    return folder
