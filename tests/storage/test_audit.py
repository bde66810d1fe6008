from __future__ import annotations

from pathlib import Path

import peewee
import pytest

from storage import Storage
from storage.database import Database
from storage.schema import migrate, migrations
from tests.storage.world import HandClock


def test_entries_come_newest_first(storage: Storage, clock: HandClock):
    storage.audit.write("root", "force-finish", "acme/web/1", "stuck")
    later = clock.turn(seconds=5)
    storage.audit.write("ada", "force-finish", "acme/web/2", "stuck too")
    newest, oldest = storage.audit.page(10, None).rows
    assert (newest.actor, newest.action, newest.subject, newest.note) == (
        "ada",
        "force-finish",
        "acme/web/2",
        "stuck too",
    )
    assert newest.at == later
    assert oldest.actor == "root"
    first = storage.audit.page(1, None)
    assert first.rows == (newest,)
    assert storage.audit.page(1, first.next_key).rows == (oldest,)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit_entries SET note = ''",
        "DELETE FROM audit_entries",
        "INSERT OR REPLACE INTO audit_entries VALUES (1, 'u', 1, 'a', 'b', 'c', 'd')",
    ],
)
def test_an_entry_is_never_changed(tmp_path: Path, clock: HandClock, sql: str):
    database = Database(tmp_path / "ci-daemon.sqlite3", clock)
    migrate(database, migrations())
    database.execute("INSERT INTO audit_entries VALUES (1, 'u', 1, 'a', 'b', 'c', 'd')")
    with pytest.raises(peewee.DatabaseError, match="append-only"):
        database.execute(sql)
    database.close()
