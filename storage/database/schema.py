"""Schema migrations: numbered SQL files, each applied once, in order, in its own transaction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import peewee

from storage.data_classes import immutable
from storage.errors import DatabaseDamaged, DatabaseUnreadable, MigrationFailed, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database

APPLICATION_ID = int.from_bytes(b"ci-d")


@immutable
class Migration:
    """One change of the schema: ``sql`` takes the database from version ``number - 1`` to ``number``."""

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


def migrate(database: Database, migrations: Sequence[Migration]) -> int:
    """Apply the migrations that the database lacks; return its version.

    Raises DatabaseUnreadable if it is another program's, SchemaTooNew if it is past the last one, and MigrationFailed
    if one fails, which then changes nothing.
    """
    known = migrations[-1].number
    _refuse_foreign(database)
    found = version(database)
    if found > known:
        raise SchemaTooNew(
            f"the database has schema version {found}, this release knows {known}: run the newer release of"
            " ci-daemon, or restore a backup from before its upgrade"
        )
    for migration in migrations:
        if migration.number > found:
            _apply(database, migration)
    return known


def _apply(database: Database, migration: Migration) -> None:
    """Apply one migration, unless another process did so first.

    Foreign keys are off during the migration and checked at its end.
    """
    database.execute("PRAGMA foreign_keys = OFF")
    try:
        with database.write():
            if version(database) >= migration.number:
                return
            database.execute(migration.sql)
            broken = database.execute("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise MigrationFailed(
                    f"migration {migration.name} leaves {len(broken)} rows that refer to missing rows: {broken[:3]}"
                )
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {migration.number}")
    except (apsw.Error, peewee.PeeweeException, DatabaseDamaged) as error:
        raise MigrationFailed(f"migration {migration.name} failed, the database is unchanged: {error}") from error
    finally:
        database.execute("PRAGMA foreign_keys = ON")


def _refuse_foreign(database: Database) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and database.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise DatabaseUnreadable("the database belongs to another program: choose another state directory")


def version(database: Database) -> int:
    """Return the number of the last migration applied to the database."""
    at: int = database.execute("PRAGMA user_version").get
    return at
