"""Pages of long lists: complete while rows are added, and the last page as cheap as the first.

The cost of a page is counted in steps of SQLite's virtual machine, so it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from storage import LedgerSource, Page, Pipeline, PipelineBusy, Storage
from storage.database.connection import Database
from tests.storage.world import World

MANY = 100_000
LIMIT = 100

_BUILDS = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY})
INSERT INTO builds (
    uuid, external_id, pipeline_id, number, state, source, cancel_requested, has_source, source_sha256, created_at,
    finished_at
)
SELECT 'u' || :pipeline || '-' || n, 'e' || :pipeline || '-' || n, :pipeline, n, 'passed', 'api', 0, 0, '', n, n
FROM numbers
"""
_ENTRIES = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY // 10})
INSERT INTO ledger_entries (uuid, organization_id, amount_cents, source, created_at)
SELECT 'u' || n, :organization, 1, 'refund', n FROM numbers
"""
_PIPELINES = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY // 10})
INSERT INTO pipelines (
    uuid, organization_id, slug, name, repository, default_branch, visibility, allow_manual, fail_fast, created_at
)
SELECT 'u' || n, :organization, 'p' || n, 'P', 'r', 'main', 'private', 1, 0, n FROM numbers
"""


@pytest.fixture
def many(database: Database, pipeline: Pipeline, world: World) -> Pipeline:
    """A pipeline with many builds, beside another one with as many."""
    for owner in (pipeline, world.other_pipeline("Other")):
        _fill(database, _BUILDS, pipeline=owner.id)
        database.execute("UPDATE pipelines SET last_number = :n WHERE id = :id", {"n": MANY, "id": owner.id})
    return pipeline


def _fill(database: Database, sql: str, **slots: int) -> None:
    with database.write():
        database.execute(sql, slots)


def _walk(page: Callable[[int | None], Page[Any]]) -> Iterator[Page[Any]]:
    after = None
    while True:
        yield (shown := page(after))
        if shown.next_key is None:
            return
        after = shown.next_key


@contextmanager
def _steps(database: Database) -> Iterator[list[int]]:
    """Collect the cost of each statement of this thread, in steps."""
    counted: list[int] = []
    connection = database.execute("SELECT 1").connection

    def counter(event: Any) -> None:
        counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, counter)
    try:
        yield counted
    finally:
        connection.trace_v2(0, None)


def test_many_builds_are_walked_whole_while_others_come(storage: Storage, many: Pipeline, world: World):
    seen: list[int] = []
    created = 0
    for count, page in enumerate(_walk(lambda after: storage.builds.page(many.id, LIMIT, after))):
        seen += [build.number for build in page.rows]
        if count % 25 == 0:
            assert world.build(pipeline=many).number == MANY + count // 25 + 1
            created += 1
    assert created == MANY // LIMIT // 25
    assert seen == list(range(MANY, 0, -1))


def test_a_page_a_build_and_a_count_cost_the_same_anywhere(storage: Storage, database: Database, many: Pipeline):
    with _steps(database) as steps:
        storage.builds.page(many.id, LIMIT, None)
        storage.builds.page(many.id, LIMIT, LIMIT + 1)
        assert storage.pipelines.by_id(many.id).build_count == MANY
        storage.builds.by_number(many.id, MANY)
        storage.builds.by_number(many.id, 1)
    first, last, count, newest, oldest = steps
    assert abs(first - last) < first // 50
    assert count < newest
    assert newest == oldest < first // 10


@pytest.mark.parametrize("noun", ["ledger", "pipelines"])
def test_the_last_page_of_a_long_list_costs_what_the_first_does(
    storage: Storage, database: Database, pipeline: Pipeline, noun: str
):
    organization = pipeline.organization_id
    _fill(database, {"ledger": _ENTRIES, "pipelines": _PIPELINES}[noun], organization=organization)
    storage.ledger.append(organization, 1, LedgerSource.REFUND, None)
    rows = getattr(storage, noun)
    with _steps(database) as steps:
        lengths = [len(page.rows) for page in _walk(lambda after: rows.page(organization, LIMIT, after))]
    assert sum(lengths) == MANY // 10 + 1
    assert lengths[:-1] == [LIMIT] * (MANY // 10 // LIMIT)
    assert max(steps[:-1]) - min(steps[:-1]) < steps[0] // 50


def test_running_builds_are_counted_without_reading_the_others(
    storage: Storage, database: Database, many: Pipeline, world: World
):
    world.build(pipeline=many)
    with _steps(database) as steps, pytest.raises(PipelineBusy, match="1 of its builds are not finished"):
        storage.pipelines.delete(many.id)
    assert sum(steps) < 200
