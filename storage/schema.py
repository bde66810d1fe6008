"""The schema's history: numbered SQL files, each applied once, in order, in a transaction of its own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import peewee

from storage.errors import MigrationFailed, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database import Database

__all__ = ["Migration", "migrate", "migrations"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: ``sql`` takes the database from ``number - 1`` to ``number``."""

    number: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """Return every migration of this release, in order."""
    found = sorted(
        (file for file in files("storage").joinpath("migrations").iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [Migration(int(file.name[:4]), file.name, file.read_text("utf-8")) for file in found]


def migrate(database: Database, steps: Sequence[Migration]) -> int:
    """Apply the steps that the database lacks; return its version.

    Raises SchemaTooNew where it is past the last step, and MigrationFailed where a step fails, which changes nothing.
    """
    known = steps[-1].number
    version = _version(database)
    if version > known:
        raise SchemaTooNew(
            f"the database has schema version {version}, this release knows {known}: run the newer release of"
            " ci-daemon, or restore a backup from before its upgrade"
        )
    for step in steps:
        if step.number > version:
            _apply(database, step)
    return known


def _apply(database: Database, step: Migration) -> None:
    """Apply one step unless another process did so first. Foreign keys are off meanwhile, and checked at the end."""
    database.execute("PRAGMA foreign_keys = OFF")
    try:
        with database.write():
            if _version(database) >= step.number:
                return
            database.execute(step.sql)
            broken = database.execute("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise MigrationFailed(
                    f"migration {step.name} leaves {len(broken)} rows that refer to none: {broken[:3]}"
                )
            database.execute(f"PRAGMA user_version = {step.number}")
    except peewee.PeeweeException as error:
        raise MigrationFailed(f"migration {step.name} failed, the database is unchanged: {error}") from error
    finally:
        database.execute("PRAGMA foreign_keys = ON")


def _version(database: Database) -> int:
    version: int = database.execute("PRAGMA user_version").get
    return version
