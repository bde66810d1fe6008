from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from storage import AuditFilter, Storage
from storage.database.connection import Database
from storage.database.schema import migrate, migrations
from tests.clock import ManualClock
from tests.storage.work import counted_work


def test_entries_come_newest_first(storage: Storage, clock: ManualClock):
    storage.audit.write("root", "force-finish", "acme/web/1", "stuck")
    later = clock.advance(seconds=5)
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
        "DELETE FROM audit_entries WHERE id = 2",
        "DELETE FROM audit_entries WHERE note = 'd' AND id <> 1",
        "INSERT OR REPLACE INTO audit_entries VALUES (1, 'u', 1, 'a', 'b', 'c', 'd', 'e', 'f')",
    ],
)
def test_an_entry_is_never_changed(tmp_path: Path, clock: ManualClock, sql: str):
    database = Database(tmp_path / "ci-daemon.sqlite3", clock)
    migrate(database, migrations())
    for row in (1, 2):
        database.execute(f"INSERT INTO audit_entries VALUES ({row}, 'u{row}', 1, 'a', 'b', 'c', 'd', 'e', 'f')")
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        database.execute(sql)
    database.close()


def test_no_filter_reads_more_of_more_entries(storage: Storage, database: Database, clock: ManualClock):
    """Neither of one who did much or nothing, nor of an organization, an action or a time."""
    began = clock.now()
    storage.audit.write("ann", "createBuild", "acme/web/1", "", organization="acme")
    storage.audit.write("bob", "createBuild", "beta/web/1", "", organization="beta")
    people = [AuditFilter(actor=each) for each in ("ann", "eve")]
    organizations = [AuditFilter(organization=each) for each in ("acme", "none")]
    both = [AuditFilter(actor=actor, organization=each) for actor, each in (("eve", "acme"), ("bob", "acme"))]
    actions = [AuditFilter(action=each) for each in ("create*", "drain")]
    actions += [AuditFilter(actor="ann", action="drain"), AuditFilter(organization="acme", action="drain")]
    times = [AuditFilter(since=began + timedelta(1)), AuditFilter(until=began), AuditFilter(since=began, actor="eve")]
    work: dict[int, list[int]] = {}
    for size in (5_000, 20_000):
        with database.write():
            database.execute(
                "WITH RECURSIVE numbers (value) AS (SELECT max(id) + 1 FROM audit_entries UNION ALL"
                " SELECT value + 1 FROM numbers WHERE value < :size)"
                " INSERT INTO audit_entries (uuid, at, actor, action, subject, note, organization)"
                " SELECT hex(randomblob(16)), at, iif(value % 2, 'ann', 'cy'), action, subject, note, organization"
                " FROM numbers, audit_entries AS one WHERE one.id = 1",
                {"size": size},
            )
        work[size] = []
        for wanted in (*people, *organizations, *both, *actions, *times):
            for read in (storage.audit.page, lambda limit, _, chosen: storage.audit.following(0, limit, chosen)):
                with counted_work(database) as counted:
                    read(30, None, wanted)
                work[size].append(counted[0])
    few, many = work.values()
    assert [pair for pair in zip(few, many, strict=True) if pair[1] > pair[0] * 1.2 + 5] == []


def test_entries_are_found_by_all_that_they_say(storage: Storage, clock: ManualClock):
    began = clock.now()
    storage.audit.write("root", "org create", "acme", "", origin="pts/0", organization="acme")
    noon = clock.advance(hours=1)
    storage.audit.write("ann@example.org", "createBuild", "acme/web/1", "", origin="::1", organization="acme")
    clock.advance(hours=1)
    storage.audit.write("ann@example.org", "createBuild", "beta/web/1", "", origin="::1", organization="beta")

    def found(**wanted: Any) -> list[str]:
        return [entry.subject for entry in storage.audit.page(10, None, AuditFilter(**wanted)).rows]

    assert found() == ["beta/web/1", "acme/web/1", "acme"]
    assert found(actor="ann@example.org", organization="acme") == ["acme/web/1"]
    assert found(action="createBuild") == ["beta/web/1", "acme/web/1"]
    assert found(action="org *") == ["acme"]
    assert found(since=noon) == ["beta/web/1", "acme/web/1"]
    assert found(since=began, until=noon) == ["acme"]
    assert found(actor="'; DROP TABLE audit_entries; --") == []
    last = storage.audit.last_id()
    storage.audit.write("root", "drain", "", "")
    assert [entry.action for entry in storage.audit.following(last, 10, AuditFilter())] == ["drain"]
    assert storage.audit.following(last, 10, AuditFilter(actor="ann@example.org")) == []


def test_a_time_is_exact_though_the_clock_was_set_back(storage: Storage, clock: ManualClock):
    """Entries are in the order of their ids, from which that of their instants differs."""
    random = Random(5)
    for number in range(200):
        clock.advance(seconds=random.choice((-300, -20, 0, 5, 10, 60)))
        storage.audit.write("root", random.choice(("drain", "org create", "org edit")), f"{number}", "")
    entries = storage.audit.page(200, None).rows
    for _ in range(300):
        since, until = (random.choice(entries).at for _ in range(2))
        action = random.choice((None, "org *", "drain"))
        wanted = AuditFilter(since=since, until=until, action=action)
        matching = [
            each for each in entries if since <= each.at < until and fnmatchcase(each.action, action or each.action)
        ]
        assert list(storage.audit.page(200, None, wanted).rows) == matching
        first = storage.audit.page(7, None, wanted)
        assert first.rows == tuple(matching[:7])
        assert storage.audit.page(7, first.next_key or 0, wanted).rows == tuple(matching[7:14])
        assert storage.audit.following(0, 7, wanted) == matching[::-1][:7]


def test_an_upgrade_knows_how_far_the_clock_was_set_back(tmp_path: Path, clock: ManualClock):
    database, all_of_them = Database(tmp_path / "ci-daemon.sqlite3", clock), migrations()
    migrate(database, [each for each in all_of_them if each.number < 58])
    for at in (100, 40, 70, 90, 30, 200):
        database.execute(f"INSERT INTO audit_entries VALUES (NULL, 'u{at}', {at}, 'a', 'b', 'c', 'd', 'e', 'f')")
    migrate(database, all_of_them)
    assert database.execute("SELECT largest FROM audit_set_back").fetchall() == [(70,)]
    database.close()


def test_the_oldest_entries_expire(storage: Storage, clock: ManualClock):
    """Expiry stops at the first young entry; older ones after it, from a clock that was set back, stay."""
    for _ in range(1500):
        storage.audit.write("root", "drain", "old", "")
    later = clock.advance(days=2)
    storage.audit.write("root", "drain", "young", "")
    clock.advance(days=-3)
    storage.audit.write("root", "drain", "set back", "")
    assert storage.audit.expirable(later) == 1500
    assert storage.audit.expire(later) == 1500
    assert [entry.subject for entry in storage.audit.page(10, None).rows] == ["set back", "young"]
    assert storage.audit.expire(later) == 0
