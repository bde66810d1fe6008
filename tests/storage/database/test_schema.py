from __future__ import annotations

import re
from pathlib import Path

import apsw
import peewee
import pytest

from storage import MigrationFailed, SchemaTooNew
from storage.database.connection import Database
from storage.database.schema import Migration, migrate, migrations
from storage.models.builds import AttemptRow
from storage.models.row import ChoiceField
from tests.clock import ManualClock
from tests.tables import all_models, fields_of, table_of


@pytest.fixture
def database(tmp_path: Path, clock: ManualClock):
    database = Database(tmp_path / "ci-daemon.sqlite3", clock)
    yield database
    database.close()


def _schema(database: Database) -> list[tuple[str, str]]:
    return database.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def _of_indexes_of_words(database: Database) -> set[str]:
    """Return the tables in which SQLite itself keeps an index of words."""
    return {name for (name,) in database.execute("SELECT name FROM pragma_table_list WHERE type = 'shadow'")}


def _version(database: Database) -> int:
    return database.execute("PRAGMA user_version").get


def test_migrations_are_numbered_without_a_gap():
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_new_database_gets_every_migration_once(database: Database):
    steps = migrations()
    assert migrate(database, steps) == _version(database) == steps[-1].number
    before = _schema(database)
    migrate(database, steps)
    assert _schema(database) == before


def test_an_old_database_gets_only_missing_migrations(database: Database):
    first = Migration(1, "0001_a.sql", "CREATE TABLE a (x); INSERT INTO a VALUES (1)")
    migrate(database, [first])
    migrate(database, [first, Migration(2, "0002_b.sql", "ALTER TABLE a ADD COLUMN y; UPDATE a SET y = 2")])
    assert database.execute("SELECT * FROM a").fetchall() == [(1, 2)]
    assert _version(database) == 2


def test_a_newer_schema_is_refused_with_both_versions(database: Database):
    migrate(database, migrations())
    known = migrations()[-1].number
    database.execute(f"PRAGMA user_version = {known + 1}")
    with pytest.raises(SchemaTooNew, match=rf"version {known + 1}, this release knows {known}"):
        migrate(database, migrations())


def test_a_failed_migration_changes_nothing(database: Database):
    good = Migration(1, "0001_a.sql", "CREATE TABLE a (x)")
    bad = Migration(2, "0002_b.sql", "CREATE TABLE b (x); INSERT INTO a VALUES (1); INSERT INTO missing VALUES (1)")
    with pytest.raises(MigrationFailed, match=r"0002_b\.sql failed, the database is unchanged: .*no such table"):
        migrate(database, [good, bad])
    assert [name for name, _ in _schema(database)] == ["a"]
    assert _version(database) == 1
    assert database.execute("PRAGMA foreign_keys").get == 1


def test_a_migration_that_breaks_a_reference_is_undone(database: Database):
    first = Migration(
        1, "0001_a.sql", "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a_id REFERENCES a (id));"
    )
    migrate(database, [first])
    with pytest.raises(MigrationFailed, match="rows that refer to missing rows"):
        migrate(database, [first, Migration(2, "0002_b.sql", "INSERT INTO b VALUES (5)")])
    assert database.execute("SELECT count(*) FROM b").get == 0


def test_a_step_applied_by_another_process_is_not_repeated(tmp_path: Path, clock: ManualClock):
    steps = migrations()
    late = _Interrupted(tmp_path / "ci-daemon.sqlite3", clock)
    try:
        migrate(late, steps)
    finally:
        late.close()
    assert late.interrupted


class _Interrupted(Database):
    """A database that another process migrates just before its own first step."""

    interrupted = False

    def write(self):
        if not self.interrupted:
            self.interrupted = True
            path = Path(self.execute("PRAGMA database_list").fetchall()[0][2])
            other = Database(path, ManualClock())
            migrate(other, migrations())
            other.close()
        return super().write()


def test_the_models_match_the_migrated_schema(database: Database):
    migrate(database, migrations())
    modelled = {table_of(model): model for model in all_models()}
    tables = {
        name for name, sql in _schema(database) if (sql or "").startswith("CREATE TABLE") and "sqlite_" not in name
    } - _of_indexes_of_words(database)
    assert set(modelled) == tables
    for table, model in modelled.items():
        columns = database.execute(f"SELECT name, type, \"notnull\" OR pk > 0 FROM pragma_table_info('{table}')")
        assert {(name, kind, bool(never_null)) for name, kind, never_null in columns} == {
            (field.column_name, _sql_type(field), not field.null) for field in fields_of(model)
        }


def _sql_type(field: peewee.Field) -> str:
    if isinstance(field, peewee.BlobField):
        return "BLOB"
    return "TEXT" if isinstance(field, peewee.TextField) else "INTEGER"


def test_ends_written_by_an_older_release_count_as_recorded_then(database: Database):
    steps = migrations()
    migrate(database, steps[:20])
    database.execute(
        """
        INSERT INTO organizations (id, uuid, slug, name, url, created_at) VALUES (1, 'o', 'o', 'o', '', 1);
        INSERT INTO pipelines (id, uuid, organization_id, slug, name, repository, default_branch, visibility,
                               allow_manual, fail_fast, created_at)
        VALUES (1, 'p', 1, 'p', 'p', 'r', 'main', 'private', 1, 0, 1);
        INSERT INTO builds (uuid, external_id, pipeline_id, number, state, source, cancel_requested, has_source,
                            source_sha256, created_at, finished_at)
        VALUES ('a', 'a', 1, 1, 'passed', 'api', 0, 0, '', 1, 2), ('b', 'b', 1, 2, 'running', 'api', 0, 0, '', 1, NULL);
        """
    )
    migrate(database, steps)
    assert database.execute("SELECT uuid, recorded_at FROM builds ORDER BY uuid").fetchall() == [
        ("a", 2),
        ("b", None),
    ]


def test_warm_leases_of_an_older_release_have_ended(database: Database):
    """Their VMs have a disk, so none is one that waits for a disk; other leases keep every value."""
    steps = migrations()
    migrate(database, steps[:21])
    states = ("creating", "warm", "active", "ended")
    for lease_id, state in enumerate(states, start=1):
        database.execute(
            """
            INSERT INTO leases (id, uuid, attempt, provider, image, cpu, memory_gb, disk_gb, network, state, created_at,
                                finished_at, amount_cents, boot, started_uptime, killed_by, seen_at)
            VALUES (?, ?, 0, 'sandbox', 'debian:12', 1, 2, 3, 1, ?, 10, ?, 4, 'boot', 5, 'ada', 6)
            """,
            (lease_id, f"vm-{lease_id}", state, 20 if state == "ended" else None),
        )
    before = _leases(database)
    migrate(database, steps)
    warm = {"state": "ended", "finished_at": 10}
    added = {"member": None}
    assert _leases(database) == [{**lease, **added, **(warm if lease["state"] == "warm" else {})} for lease in before]
    with pytest.raises(apsw.ConstraintError):
        database.execute("UPDATE leases SET state = 'warm'")


def _leases(database: Database) -> list[dict[str, object]]:
    names = [name for (name,) in database.execute("SELECT name FROM pragma_table_info('leases') ORDER BY name")]
    rows = database.execute(f"SELECT {', '.join(names)} FROM leases ORDER BY id")
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_every_table_is_strict_about_types(database: Database):
    migrate(database, migrations())
    others = _of_indexes_of_words(database)
    for name, sql in _schema(database):
        if (sql or "").startswith("CREATE TABLE") and "sqlite_sequence" not in sql and name not in others:
            assert re.search(r"\) STRICT(, WITHOUT ROWID)?$", sql)


def test_the_choices_of_columns_are_those_of_the_enums(database: Database):
    migrate(database, migrations())
    for model in all_models():
        for field in fields_of(model):
            if isinstance(field, ChoiceField) and model is not AttemptRow:
                (sql,) = (sql for table, sql in _schema(database) if table == table_of(model))
                (choices,) = re.findall(rf"CHECK \(\s*{field.column_name} IN \(([^)]*)\)", sql)
                assert set(re.findall(r"'(\w+)'", choices)) == set(field.by_value)


def test_sqlite_is_the_one_that_comes_with_apsw():
    assert apsw.sqlite_lib_version() >= "3.46"
