"""Fill a stopped service's database with copies of a build that ran."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_UUID = """lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a'
    || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"""


def copy_builds(database: Path, builds: int) -> None:
    """Copy the first build and its job until its pipeline has ``builds`` builds."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        (present,) = connection.execute("SELECT max(number) FROM builds").fetchone()
        # With an unknown log size the service would measure the copies' logs during the benchmark.
        made = {"id": "NULL", "uuid": _UUID, "external_id": _UUID, "number": "numbers.value", "log_bytes": "0"}
        numbers = "WITH numbers (value) AS (SELECT ? UNION ALL SELECT value + 1 FROM numbers WHERE value < ?)"
        columns, values = _copied(connection, "builds", made)
        connection.execute(
            f"{numbers} INSERT INTO builds ({columns}) SELECT {values} FROM numbers, builds AS copied"
            " WHERE copied.number = 1",
            (present + 1, builds),
        )
        columns, values = _copied(connection, "jobs", {"id": "NULL", "uuid": _UUID, "build_id": "builds.id"})
        connection.execute(
            f"INSERT INTO jobs ({columns}) SELECT {values} FROM builds, jobs AS copied"
            " WHERE builds.number > ? AND copied.build_id = (SELECT id FROM builds WHERE number = 1)",
            (present,),
        )
        connection.execute("UPDATE pipelines SET last_number = ?", (builds,))


def _copied(connection: sqlite3.Connection, table: str, made: Mapping[str, str]) -> tuple[str, str]:
    """Return the columns of a table, and the SQL expressions of a copy's values."""
    names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
    return ", ".join(names), ", ".join(made.get(name, f"copied.{name}") for name in names)
