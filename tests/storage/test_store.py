from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from storage import (
    AlreadyInitialized,
    BillingSettings,
    DatabaseUnreadable,
    KeyUnreadable,
    NotInitialized,
    SchemaTooNew,
    Storage,
)
from tests.clock import ManualClock


@pytest.fixture
def state(tmp_path: Path, clock: ManualClock) -> Path:
    """A state directory with one user in it, closed."""
    storage = Storage.create(tmp_path / "deep" / "state", clock)
    storage.users.create("ann@example.org", "Ann")
    storage.close()
    return tmp_path / "deep" / "state"


def test_a_new_state_directory_is_its_owners_alone(state: Path):
    assert {path.name for path in state.iterdir()} == {
        "ci-daemon.sqlite3",
        "secret.key",
        "artifacts",
        "kept",
        "logs",
        "sources",
        "workspaces",
    }
    for path in (state, *state.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_what_was_stored_is_there_after_opening_again(state: Path, clock: ManualClock):
    storage = Storage.open(state, clock)
    assert storage.users.by_email("ann@example.org") is not None
    assert storage.directory == state
    storage.close()


def test_two_at_once_on_one_directory_see_each_others_writes(state: Path, clock: ManualClock):
    daemon, command = Storage.open(state, clock), Storage.open(state, clock)
    command.users.create("bob@example.org", "Bob")
    assert daemon.users.by_email("bob@example.org") is not None
    command.close()
    daemon.users.create("eve@example.org", "Eve")
    daemon.close()


def test_a_state_directory_is_made_once(state: Path, clock: ManualClock):
    with pytest.raises(AlreadyInitialized):
        Storage.create(state, clock)


def test_a_missing_state_directory_is_reported_with_init(tmp_path: Path, clock: ManualClock):
    with pytest.raises(NotInitialized, match=f"ci-daemon --state-dir {tmp_path} init"):
        Storage.open(tmp_path, clock)
    assert list(tmp_path.iterdir()) == []


def test_an_init_that_was_cut_short_is_taken_up_again(tmp_path: Path, clock: ManualClock, state: Path):
    (tmp_path / "half").mkdir()
    shutil.copy(state / "secret.key", tmp_path / "half")
    kept = (tmp_path / "half" / "secret.key").read_bytes()
    Storage.create(tmp_path / "half", clock).close()
    assert (tmp_path / "half" / "secret.key").read_bytes() == kept
    (tmp_path / "half" / "ci-daemon.sqlite3").write_bytes(b"")
    storage = Storage.open(tmp_path / "half", clock)
    storage.users.create("a@b.c", "A")
    storage.close()


def test_a_lost_key_is_reported_before_anything_is_read(state: Path, clock: ManualClock):
    (state / "secret.key").unlink()
    with pytest.raises(KeyUnreadable):
        Storage.open(state, clock)


def test_a_file_other_than_a_database_is_refused(state: Path, clock: ManualClock):
    (state / "ci-daemon.sqlite3").write_bytes(b"no database at all, but long enough to be read as one" * 100)
    before = len(apsw.connections())
    with pytest.raises(DatabaseUnreadable, match=r"ci-daemon\.sqlite3") as refused:
        Storage.open(state, clock)
    assert len(apsw.connections()) == before, refused


def test_another_programs_database_is_refused_unchanged(state: Path, clock: ManualClock):
    path = state / "ci-daemon.sqlite3"
    path.unlink()
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE theirs (x)")
    theirs.close()
    with pytest.raises(DatabaseUnreadable, match="another program"):
        Storage.open(state, clock)
    theirs = apsw.Connection(str(path))
    assert theirs.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    theirs.close()


def test_a_newer_database_is_refused_and_closed(state: Path, clock: ManualClock):
    connection = apsw.Connection(str(state / "ci-daemon.sqlite3"))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()
    before = len(apsw.connections())
    with pytest.raises(SchemaTooNew, match="9999") as refused:
        Storage.open(state, clock)
    assert len(apsw.connections()) == before, refused


def test_closing_leaves_no_file_open_and_no_write_ahead_log(state: Path, clock: ManualClock):
    storage = Storage.open(state, clock)
    storage.users.create("bob@example.org", "Bob")
    storage.close()
    storage.close()
    opened = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
    assert not [name for name in opened if name.startswith(str(state))]
    assert not list(state.glob("*-wal"))


def test_rates_and_limits_are_given_at_opening(state: Path, clock: ManualClock):
    storage = Storage.open(state, clock, billing=BillingSettings(0, 0, 0), log_limit=5)
    assert storage.billing.free
    with storage.logs.writer("b", "j", 1) as writer:
        writer.output(b"123456789")
    assert b"the log keeps 5." in storage.logs.reader("b", "j").read(0, 100)
    assert storage.logs.reader("b", "j").size() > 5
    storage.close()
    usual = Storage.open(state, clock)
    assert not usual.billing.free
    usual.close()
