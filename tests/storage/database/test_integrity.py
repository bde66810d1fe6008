"""A damaged page is found by the look at the database, and known until the database is whole again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import DatabaseDamaged
from storage.database.connection import Database
from storage.database.integrity import Integrity
from tests.clock import ManualClock
from tests.damage import damage_page

_DAY = 86_400


def _no_rest(_seconds: float) -> bool:
    return False


@pytest.fixture
def path(tmp_path: Path, clock: ManualClock) -> Path:
    """A database with a table of notes, and an index of it, of several pages each; nothing has it open."""
    path = tmp_path / "notes.sqlite3"
    made = Database(path, clock)
    made.execute("CREATE TABLE notes (text TEXT NOT NULL) STRICT")
    made.execute("CREATE INDEX by_text ON notes (text)")
    with made.write():
        made.execute_many("INSERT INTO notes VALUES (:text)", ({"text": f"{n:06}" * 100} for n in range(2000)))
    made.close()
    return path


@pytest.fixture
def opened(path: Path, clock: ManualClock) -> Iterator[Database]:
    database = Database(path, clock)
    yield database
    database.close()


def integrity_of(database: Database, clock: ManualClock) -> Integrity:
    return Integrity(database.path, database.damage, clock)


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("name", ["notes", "by_text"])
def test_a_look_tells_a_damaged_page_once(
    path: Path, opened: Database, clock: ManualClock, caplog: pytest.LogCaptureFixture, name: str
):
    damage_page(path, name)
    integrity = integrity_of(opened, clock)
    assert integrity.damage is None
    integrity.look_if_due(_no_rest)
    clock.advance(_DAY)
    integrity.look_if_due(_no_rest)
    [told] = _told(caplog)
    assert "the database is damaged" in told
    assert "ci-daemon restore" in told
    assert integrity.damage == told


def test_a_damaged_schema_is_told_by_the_look(path: Path, opened: Database, clock: ManualClock):
    opened.execute("SELECT count(*) FROM notes")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 3900)
    integrity = integrity_of(opened, clock)
    integrity.look_if_due(_no_rest)
    assert integrity.damage is not None


def test_damage_is_known_until_a_successor_finds_none(path: Path, opened: Database, clock: ManualClock, tmp_path: Path):
    """Damage that a statement met stays known, too, though a later look finds none."""
    whole = shutil.copy(path, tmp_path / "whole")
    damage_page(path, "notes")
    with pytest.raises(DatabaseDamaged):
        opened.execute("SELECT sum(length(text)) FROM notes NOT INDEXED").fetchall()
    path.write_bytes(whole.read_bytes())
    mended = integrity_of(opened, clock)
    mended.look_if_due(_no_rest)
    assert mended.damage is not None

    successor = integrity_of(Database(path, clock), clock)
    assert successor.damage == mended.damage
    successor.look_if_due(_no_rest)
    assert successor.damage is None
    assert integrity_of(Database(path, clock), clock).damage is None


def test_the_damage_of_a_database_is_not_its_successors(
    path: Path, opened: Database, clock: ManualClock, tmp_path: Path
):
    whole = shutil.copy(path, tmp_path / "whole")
    damage_page(path, "notes")
    integrity_of(opened, clock).look_if_due(_no_rest)
    assert integrity_of(Database(path, clock), clock).damage is not None
    whole.replace(path)
    assert integrity_of(Database(path, clock), clock).damage is None


def test_a_look_ends_when_its_service_stops(
    path: Path, opened: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    """The next look is due at once, and finds what this one did not come to."""
    monkeypatch.setattr("storage.database.integrity._BURST_SECONDS", 0)
    monkeypatch.setattr("storage.database.integrity._OPERATIONS", 1)
    damage_page(path, "notes")
    integrity = integrity_of(opened, clock)
    rests: list[float] = []

    def ends(seconds: float) -> bool:
        rests.append(seconds)
        return True

    integrity.look_if_due(ends)
    assert (len(rests), integrity.damage) == (1, None)
    integrity.look_if_due(_no_rest)
    assert integrity.damage is not None


def test_a_look_is_due_once_a_day(path: Path, opened: Database, clock: ManualClock):
    integrity = integrity_of(opened, clock)
    integrity.look_if_due(_no_rest)
    damage_page(path, "notes")
    clock.advance(_DAY - 1)
    integrity.look_if_due(_no_rest)
    assert integrity.damage is None
    clock.advance(1)
    integrity.look_if_due(_no_rest)
    assert integrity.damage is not None
