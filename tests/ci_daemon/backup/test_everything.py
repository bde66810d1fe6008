"""A backup contains everything that can be stored, and reads the same through the API."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from ci_daemon.backup import backup, restore, undeclared_files
from storage import FILE_KINDS, BuildState
from storage.models.row import ChoiceField
from tests.ci_daemon.backup.api_reader import everything_read
from tests.ci_daemon.backup.everything import Everything, reopened
from tests.tables import all_models, fields_of, table_of

DATABASE = "ci-daemon.sqlite3"
_OF_SQLITE = "sqlite_%"
NEVER = {
    "attempts.state": {"pending", "scheduled", "canceling", "timing_out"},
    "invites.role": {"owner"},
}
"""Choices that a column never has: attempts begin when a VM is assigned, and nobody is invited to own."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    made = Everything.create(tmp_path_factory.mktemp("everything") / "state")
    yield made
    made.storage.close()


@pytest.fixture
def database(everything: Everything) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(everything.storage.directory / DATABASE))) as connection:
        yield connection


def test_what_is_saved_here_is_all_that_there_is(everything: Everything, database: apsw.Connection):
    """A new table or column needs a value in `everything.py`, and so comes into the backup.

    An index of words gives no values back; the tables in which it is kept are here.
    """
    empty = []
    tables = database.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow') AND name NOT LIKE ?",
        (_OF_SQLITE,),
    )
    for (table,) in list(tables):
        columns = [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]
        counts = ", ".join(f'count("{column}")' for column in columns)
        (counted,) = database.execute(f"SELECT {counts} FROM {table}")
        empty += [f"{table}.{column}" for column, count in zip(columns, counted, strict=True) if not count]
    assert empty == [], "nothing is stored there: put something into it in tests/ci_daemon/backup/everything.py"


def test_every_choice_is_made_once(database: apsw.Connection):
    """Builds and jobs of every outcome, leases, holds and entries of every kind."""
    missing = []
    for model in all_models():
        for field in fields_of(model):
            if isinstance(field, ChoiceField):
                table, column = table_of(model), field.column_name
                found = {row[0] for row in database.execute(f"SELECT DISTINCT {column} FROM {table}")}
                wanted = field.by_value.keys() - NEVER.get(f"{table}.{column}", set())
                missing += [f"{table}.{column} = {choice}" for choice in wanted - found]
    assert missing == [], "store that too, in tests/ci_daemon/backup/everything.py"


def test_every_file_is_declared_and_every_kind_is_there(everything: Everything, tmp_path: Path):
    """A new kind of file must be declared in `storage.FILE_KINDS`, like the others."""
    assert list(undeclared_files(everything.storage.directory)) == []
    saved = backup(everything.storage.directory, tmp_path / "x.backup").verification.manifest.members
    assert [kind for kind in FILE_KINDS if kind.rows and not any(map(kind.has, saved))] == []


def test_a_backup_restores_all_of_the_state(everything: Everything, tmp_path: Path):
    taken = backup(everything.storage.directory, tmp_path / "x.backup")
    with (tmp_path / "x.backup").open("rb") as source:
        restored = restore(source, tmp_path / "new")
    assert restored.verification == taken.verification
    assert (taken.verification.problems, taken.left_out) == ((), ())
    before = everything_read(everything.storage, everything.clock, everything.token)
    with reopened(tmp_path / "new", everything.clock) as storage:
        after = everything_read(storage, everything.clock, everything.token)
    assert len(before) > 200
    assert after.keys() == before.keys()
    assert [path for path in before if after[path] != before[path]] == []
    old, new = (_rows(directory) for directory in (everything.storage.directory, tmp_path / "new"))
    assert new == old


def test_a_backup_under_load_has_each_build_of_one_instant(tmp_path: Path):
    """Builds start, write and end during the backups; logs and artifacts of ended ones are whole."""
    made = Everything.create(tmp_path / "state")
    with _building(made) as some_builds:
        for number in range(3):
            some_builds()
            taken = backup(made.storage.directory, tmp_path / f"{number}.backup")
            assert (taken.verification.problems, taken.left_out) == ((), ())
    now = everything_read(made.storage, made.clock, made.token)
    made.storage.close()
    for number in range(3):
        with (tmp_path / f"{number}.backup").open("rb") as source:
            assert restore(source, tmp_path / str(number)).verification.problems == ()
        with reopened(tmp_path / str(number), made.clock) as storage:
            then = everything_read(storage, made.clock, made.token)
            builds = storage.builds.page(made.pipeline.id, 1000, None).rows
        passed = {str(build.number) for build in builds if build.state is BuildState.PASSED}
        compared = [path for path in then if path.endswith(("/log", "/download")) and path.split("/")[8] in passed]
        assert len(compared) >= 10
        assert [path for path in compared if then[path] != now[path]] == []


@contextmanager
def _building(made: Everything) -> Iterator[Callable[[], None]]:
    """Yield a function; each call lets a thread make another 60 builds.

    It is one thread, as each build advances the clock: to a second one that waits for the database just then, a minute
    would seem to pass.
    """
    builds = threading.Semaphore(0)
    over = threading.Event()

    def work() -> None:
        while builds.acquire() and not over.is_set():
            made.run(artifacts=2)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield lambda: builds.release(60)
        finally:
            over.set()
            builds.release()
    working.result()


def _rows(directory: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(apsw.Connection(os.fspath(directory / DATABASE))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        return {str(table): list(connection.execute(f"SELECT * FROM {table}")) for (table,) in list(tables)}
