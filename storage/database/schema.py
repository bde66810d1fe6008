"""Schema migrations: numbered SQL files, each applied once, in order, in its own transaction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import peewee

from storage.errors import DatabaseUnreadable, MigrationFailed, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database

__all__ = ["APPLICATION_ID", "Migration", "migrate", "migrations", "schema_of_release", "version"]


APPLICATION_ID = int.from_bytes(b"ci-d")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: ``sql`` takes the database from version ``number - 1`` to ``number``."""

    number: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """Return every migration of this release, in order."""
    found = sorted((Path(__file__).parents[1] / "migrations").glob("*.sql"))
    return [Migration(int(file.name[:4]), file.name, file.read_text("utf-8")) for file in found]


def schema_of_release() -> int:
    """Return the number of the last migration of this release."""
    return migrations()[-1].number


def migrate(database: Database, steps: Sequence[Migration]) -> int:
    """Apply the steps that the database lacks; return its version.

    Raises DatabaseUnreadable if it is another program's, SchemaTooNew if it is past the last step, and MigrationFailed
    if a step fails; that step then changes nothing.
    """
    known = steps[-1].number
    _refuse_foreign(database)
    found = version(database)
    if found > known:
        raise SchemaTooNew(
            f"the database has schema version {found}, this release knows {known}: run the newer release of"
            " ci-daemon, or restore a backup from before its upgrade"
        )
    for step in steps:
        if step.number > found:
            _apply(database, step)
    return known


def _apply(database: Database, step: Migration) -> None:
    """Apply one step, unless another process did so first.

    Foreign keys are off during the step and checked at its end.
    """
    database.execute("PRAGMA foreign_keys = OFF")
    try:
        with database.write():
            if version(database) >= step.number:
                return
            database.execute(step.sql)
            broken = database.execute("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise MigrationFailed(
                    f"migration {step.name} leaves {len(broken)} rows that refer to missing rows: {broken[:3]}"
                )
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {step.number}")
    except peewee.PeeweeException as error:
        raise MigrationFailed(f"migration {step.name} failed, the database is unchanged: {error}") from error
    finally:
        database.execute("PRAGMA foreign_keys = ON")


def _refuse_foreign(database: Database) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and database.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise DatabaseUnreadable("the database belongs to another program: choose another state directory")


def version(database: Database) -> int:
    """Return the number of the last step applied to the database."""
    at: int = database.execute("PRAGMA user_version").get
    return at
