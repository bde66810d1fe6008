"""Writes are on the disk before anybody is told (engine.md, "After a crash")."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from storage import DatabaseUnavailable, SystemClock
from storage.database.connection import Database
from tests.held_disk import HeldDisk
from tests.waiting import until


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> HeldDisk:
    return HeldDisk(monkeypatch)


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "numbers.sqlite3", SystemClock())
    with database.write():
        database.execute("CREATE TABLE numbers (n INTEGER)")
    yield database
    database.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def _add(numbers: Database, n: int) -> None:
    with numbers.write():
        numbers.execute("INSERT INTO numbers VALUES (:n)", {"n": n})


def _count(numbers: Database) -> int:
    return int(numbers.execute("SELECT count(*) FROM numbers").get)


def test_a_write_returns_when_it_is_on_the_disk(disk: HeldDisk, numbers: Database, threads: ThreadPoolExecutor):
    with disk.held():
        writing = threads.submit(_add, numbers, 1)
        disk.await_sync()
        assert _count(numbers) == 1
        assert not writing.done()
    writing.result(60)


def test_writers_that_wait_share_one_sync(disk: HeldDisk, numbers: Database, threads: ThreadPoolExecutor):
    before = disk.syncs
    with disk.held():
        first = threads.submit(_add, numbers, 0)
        disk.await_sync()
        others = [threads.submit(_add, numbers, n) for n in range(1, 21)]
        until(lambda: _count(numbers) == 21, "the commits of all")
    for each in (first, *others):
        each.result(60)
    assert disk.syncs - before == 2


def test_a_nested_write_is_synced_with_the_outer_one(disk: HeldDisk, numbers: Database):
    before = disk.syncs
    with numbers.write():
        _add(numbers, 1)
        _add(numbers, 2)
        assert disk.syncs == before
    assert disk.syncs == before + 1


def test_what_was_rolled_back_needs_no_sync(disk: HeldDisk, numbers: Database):
    before = disk.syncs
    with suppress(LookupError), numbers.write():
        numbers.execute("INSERT INTO numbers VALUES (1)")
        raise LookupError
    numbers.await_disk()
    assert (_count(numbers), disk.syncs) == (0, before)


def test_a_reader_waits_for_what_another_thread_wrote(disk: HeldDisk, numbers: Database, threads: ThreadPoolExecutor):
    def read() -> int:
        numbers.await_disk()
        return disk.syncs

    before = disk.syncs
    with disk.held():
        threads.submit(_add, numbers, 1)
        until(lambda: _count(numbers), "the commit")
        reader = threads.submit(read)
    assert reader.result(60) == before + 1


def test_a_note_of_use_waits_for_no_sync(disk: HeldDisk, numbers: Database):
    before = disk.syncs
    with numbers.write_at_once():
        numbers.execute("INSERT INTO numbers VALUES (1)")
    numbers.await_disk()
    assert (_count(numbers), disk.syncs) == (1, before)


def test_after_a_failed_sync_nothing_is_written(disk: HeldDisk, numbers: Database):
    """The kernel tells of a lost page once: a second sync would succeed, and the page would still be lost."""
    disk.failure = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(DatabaseUnavailable, match="Input/output error; check the disk, then restart the service"):
        _add(numbers, 1)
    disk.failure = None
    with pytest.raises(DatabaseUnavailable, match="restart"):
        _add(numbers, 2)
    with pytest.raises(DatabaseUnavailable, match="restart"):
        numbers.await_disk()
    assert _count(numbers) == 1
