from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from storage import DatabaseBusy, DatabaseDamaged, DatabaseGone, DatabaseUnavailable, StorageClosed
from storage.database.connection import Database
from tests.clock import ManualClock


@pytest.fixture
def numbers(tmp_path: Path, clock: ManualClock):
    """A database with one table of numbers."""
    made = Database(tmp_path / "numbers.sqlite3", clock)
    made.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT")
    yield made
    made.close()


def _all(numbers: Database) -> list[int]:
    return [row[0] for row in numbers.execute("SELECT n FROM numbers ORDER BY n")]


def _add(numbers: Database, n: int) -> None:
    numbers.execute("INSERT INTO numbers VALUES (:n)", {"n": n})


def _write(numbers: Database, n: int) -> None:
    with numbers.write():
        _add(numbers, n)


def _in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_connections_keep_foreign_keys_and_write_ahead(numbers: Database):
    assert numbers.execute("PRAGMA foreign_keys").get == 1
    assert numbers.execute("PRAGMA journal_mode").get == "wal"
    assert numbers.execute("PRAGMA synchronous").get == 1


def test_a_statement_is_planned_once_for_all_values(numbers: Database):
    """SQLite would plan it for each value, to learn whether the value is within a partial index."""

    numbers.execute("CREATE INDEX large ON numbers (n) WHERE n > 100")
    planned: list[str | None] = []

    def note(_action: int, table: str | None, *_others: str | None) -> int:
        planned.append(table)
        return apsw.SQLITE_OK

    numbers.connection().authorizer = note
    counts = []
    for n in range(3):
        numbers.execute("SELECT n FROM numbers WHERE n > :n", {"n": n}).fetchall()
        counts.append(planned.count("numbers"))

    assert counts[0] > 0
    assert counts == [counts[0]] * 3


def test_a_write_has_one_instant(numbers: Database, clock: ManualClock):
    with numbers.write():
        begun = numbers.now()
        clock.advance(seconds=1)
        elsewhere: list[int] = []
        _in_thread(lambda: elsewhere.append(numbers.now()))
        with numbers.write():
            assert numbers.now() == begun
        assert numbers.now() == begun
    assert elsewhere == [begun + 1_000_000]
    assert numbers.now() == begun + 1_000_000


def test_an_exception_undoes_all_that_a_write_did(numbers: Database):
    def fail() -> None:
        with numbers.write():
            _add(numbers, 1)
            with numbers.write():
                _add(numbers, 2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert _all(numbers) == []
    with numbers.write():
        _add(numbers, 3)
    assert _all(numbers) == [3]


def test_a_clock_that_fails_leaves_no_transaction_open(numbers: Database, monkeypatch: pytest.MonkeyPatch):
    def fails() -> int:
        raise OverflowError

    with monkeypatch.context() as broken:
        broken.setattr(numbers, "now", fails)
        with pytest.raises(OverflowError), numbers.write():
            pass
    _in_thread(lambda: _all(numbers))
    with numbers.write():
        pass
    assert not numbers.execute("SELECT 1").connection.in_transaction


def test_a_failed_statement_rolls_back_and_the_next_one_works(numbers: Database):
    def fail() -> None:
        with numbers.write():
            _add(numbers, 1)
            _add(numbers, 1)

    with pytest.raises(apsw.ConstraintError):
        fail()
    with numbers.write():
        _add(numbers, 1)
    assert _all(numbers) == [1]


def test_a_write_that_sqlite_rolled_back_raises_the_reason(numbers: Database):
    def fail() -> None:
        with numbers.write():
            _add(numbers, 1)
            numbers.execute("INSERT OR ROLLBACK INTO numbers VALUES (1)")

    with pytest.raises(apsw.ConstraintError):
        fail()
    assert _all(numbers) == []


def test_readers_do_not_wait_for_a_writer_or_see_its_changes(numbers: Database):
    """They see the changes after its end."""
    seen: list[list[int]] = []
    with numbers.write():
        _add(numbers, 1)
        _in_thread(lambda: seen.append(_all(numbers)))
    _in_thread(lambda: seen.append(_all(numbers)))
    assert seen == [[], [1]]


def test_many_threads_write_one_after_the_other_and_lose_nothing(numbers: Database):
    def add(start: int) -> None:
        for _ in range(50):
            with numbers.write():
                n = numbers.execute("SELECT coalesce(max(n), 0) + 1 FROM numbers").get
                _add(numbers, n)

    threads = [threading.Thread(target=add, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _all(numbers) == list(range(1, 401))


def test_a_thread_reuses_the_connection_of_an_ended_one(numbers: Database):
    """Few connections are kept."""
    before = len(apsw.connections())
    for _ in range(20):
        _in_thread(lambda: _all(numbers))
    assert len(apsw.connections()) == before + 1
    together = threading.Barrier(20)

    def read() -> None:
        _all(numbers)
        together.wait()

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(apsw.connections()) == before + 8


def test_a_connection_that_is_let_go_serves_other_threads(numbers: Database):
    _write(numbers, 1)
    before = len(apsw.connections())
    seen: list[list[int]] = []
    numbers.let_go()
    _in_thread(lambda: seen.append(_all(numbers)))
    assert len(apsw.connections()) == before
    numbers.let_go()
    numbers.let_go()
    _write(numbers, 2)
    assert (seen, _all(numbers)) == ([[1]], [1, 2])
    assert len(apsw.connections()) == before


def test_a_connection_left_in_a_transaction_is_not_reused(numbers: Database):
    _in_thread(lambda: numbers.execute("BEGIN IMMEDIATE"))
    _write(numbers, 1)
    assert _all(numbers) == [1]


def test_close_closes_all_connections_and_may_come_twice(tmp_path: Path, clock: ManualClock):
    made = Database(tmp_path / "a.sqlite3", clock)
    reading, closed = threading.Event(), threading.Event()
    refused: list[str] = []

    def read() -> None:
        made.execute("SELECT 1")
        reading.set()
        closed.wait()
        with pytest.raises(apsw.ConnectionClosedError, match="closed") as error:
            made.execute("SELECT 1")
        refused.append(str(error.value))

    before = len(apsw.connections())
    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    made.execute("SELECT 1")
    made.close()
    made.close()
    assert len(apsw.connections()) == before
    closed.set()
    thread.join()
    assert len(refused) == 1
    with pytest.raises(StorageClosed):
        made.execute("SELECT 1")


_HOLDER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("INSERT INTO numbers VALUES (99)")
connection.execute("COMMIT")
"""


@pytest.fixture
def holder(numbers: Database, tmp_path: Path):
    """Another process that holds the database's write lock until it reads from stdin."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path / "numbers.sqlite3")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_write_waits_for_another_process(numbers: Database, holder: subprocess.Popen[str]):
    timer = threading.Timer(0.1, lambda: holder.communicate("go\n"))
    timer.start()
    with numbers.write():
        _add(numbers, 1)
    timer.join()
    assert _all(numbers) == [1, 99]


def test_a_write_gives_up_on_a_process_that_never_lets_go(
    tmp_path: Path, clock: ManualClock, holder: subprocess.Popen[str]
):
    impatient = Database(tmp_path / "numbers.sqlite3", clock, busy_seconds=0.05)
    with pytest.raises(DatabaseBusy, match="try again"), impatient.write():
        pytest.fail("the write began")
    impatient.close()


class ReadClock(ManualClock):
    """A clock that tells when its monotonic time was read: a writer does that as it begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.was_read = threading.Event()

    def monotonic(self) -> float:
        now = super().monotonic()
        self.was_read.set()
        return now


def test_a_write_does_not_wait_for_another_that_waits(tmp_path: Path, holder: subprocess.Popen[str]):
    clock = ReadClock()
    numbers = Database(tmp_path / "numbers.sqlite3", clock)
    first = threading.Thread(target=lambda: _write(numbers, 1))
    first.start()
    assert clock.was_read.wait(60)
    clock.advance(seconds=2)
    with pytest.raises(DatabaseBusy, match="another process"):
        _write(numbers, 2)
    assert first.is_alive()
    holder.communicate("go\n")
    first.join()
    _write(numbers, 2)
    assert _all(numbers) == [1, 2, 99]
    numbers.close()


def test_a_writer_that_is_slow_to_begin_holds_nobody_up(
    numbers: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    """On a busy host a thread may get no CPU for seconds, and no other process has the database."""
    begins, begin = threading.Event(), threading.Event()
    execute, is_stuck = Database.execute, Database.is_stuck

    def slowly(database: Database, sql: str, slots: object = None) -> apsw.Cursor:
        if threading.current_thread() is slow and not begins.is_set():
            begins.set()
            assert begin.wait(60)
        return execute(database, sql, slots)

    def is_stuck_before(database: Database) -> bool:
        stuck = is_stuck(database)
        if threading.current_thread() is not slow:
            begin.set()
        return stuck

    slow = threading.Thread(target=lambda: _write(numbers, 1))
    monkeypatch.setattr(Database, "execute", slowly)
    monkeypatch.setattr(Database, "is_stuck", is_stuck_before)
    slow.start()
    assert begins.wait(60)
    clock.advance(seconds=60)
    _write(numbers, 2)
    slow.join()
    assert _all(numbers) == [1, 2]


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_written_that_would_be_in_no_file(numbers: Database, tmp_path: Path, *, replaced: bool):
    _write(numbers, 1)
    file, aside = tmp_path / "numbers.sqlite3", tmp_path / "aside"
    file.rename(aside)
    if replaced:
        file.write_bytes(aside.read_bytes())
    with pytest.raises(DatabaseGone, match="put it back"):
        _write(numbers, 2)
    refused: list[object] = []

    def read() -> None:
        with pytest.raises(DatabaseGone, match="put it back"):
            _all(numbers)
        refused.append("read")

    _in_thread(read)
    assert refused == ["read"]
    assert file.exists() is replaced
    aside.rename(file)
    _write(numbers, 3)
    assert _all(numbers) == [1, 3]


def test_a_database_that_cannot_be_opened_has_its_own_error(tmp_path: Path, clock: ManualClock):
    nowhere = Database(tmp_path / "nowhere" / "numbers.sqlite3", clock)
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"), nowhere.write():
        pytest.fail("the write began")
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        nowhere.execute("SELECT 1")
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"), nowhere.write_at_once():
        pytest.fail("the write began")
    refused: list[object] = []

    def write() -> None:
        with pytest.raises(DatabaseUnavailable, match="cannot be opened"), nowhere.write_at_once():
            pytest.fail("the write began")
        refused.append("not as one that waits for its turn")

    _in_thread(write)
    assert len(refused) == 1


def test_a_full_disk_and_a_read_only_database_have_own_errors(numbers: Database):
    numbers.execute("CREATE TABLE notes (text)")
    numbers.execute("PRAGMA max_page_count = 3")
    with pytest.raises(DatabaseUnavailable, match="full"), numbers.write():
        numbers.execute("INSERT INTO notes VALUES (:text)", {"text": "x" * 400_000})
    numbers.execute("PRAGMA max_page_count = 1000000")
    numbers.execute("PRAGMA query_only = on")
    with pytest.raises(DatabaseUnavailable, match="read"), numbers.write():
        numbers.execute("INSERT INTO notes VALUES ('more')")
    numbers.execute("PRAGMA query_only = off")
    with numbers.write():
        numbers.execute("INSERT INTO notes VALUES ('again')")


def test_a_damaged_page_is_told_with_the_way_out_once(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "damaged.sqlite3"
    whole = Database(path, clock)
    whole.execute("CREATE TABLE notes (text)")
    with whole.write():
        whole.execute_many("INSERT INTO notes VALUES (:text)", ({"text": "x" * 3000} for _ in range(40)))
    whole.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole.close()
    content = bytearray(path.read_bytes())
    content[2 * 4096 :] = b"\xa5" * (len(content) - 2 * 4096)
    path.write_bytes(content)
    damaged = Database(path, clock)
    for _ in range(2):
        with pytest.raises(DatabaseDamaged, match="ci-daemon restore"):
            damaged.execute("SELECT sum(length(text)) FROM notes").fetchall()
    assert [record.levelname for record in caplog.records if "is damaged" in record.message] == ["ERROR"]
    damaged.close()
