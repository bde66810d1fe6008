from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from storage import BillingSettings, BuildSettings, Edge, EdgeKind, NewJob, Page, Shape, Storage
from storage.database.connection import Database
from storage.database.statements import Columns, Query, Slots, Write, slot, written
from storage.models.builds import EdgeRow, JobRow
from tests.clock import ManualClock
from tests.state import PARTS, statements_of
from tests.storage.world import new_job

READS_ALL = {
    "kept_disks._all": "few: their number has a bound, and the oldest go first",
    "kept_disks._charged": "as few",
    "kept_disks._mark": "as few",
    "issuer_keys._all": "three at most",
    "kept_folders._all": "few: they have a budget, and the longest unused go first",
    "queue._length": "counts all who wait, in a covering index",
    "ledger._unbalanced": "verification reads everything",
    "ledger._wrong_job_debits": "verification reads everything",
    "ledger._wrong_hold_debits": "verification reads everything",
    "ledger._wrong_disk_debits": "verification reads everything",
    "ledger._wrong_topups": "verification reads everything",
    "ledger._stray_topups": "verification reads everything",
    "ledger._wrong_refunds": "verification reads everything",
    "artifact_retention._bytes": "the sum of all, once an hour, from a covering index",
    "log_retention._bytes": "the sum of all, once an hour, from a covering index",
    "source_retention._bytes": "the sum of all, once an hour, from a covering index",
    "source_retention._kept_uuids": "beside the list of their files, from a covering index",
    "ledger._totals": "the sum of all organizations' balances, when somebody looks at the figures",
    "organizations._all": "the list has no bounds",
    "users._all": "the list has no bounds",
    "registry_logins._all": "a restore opens every one",
    "secrets._all": "a restore opens every one",
    "coupons._all": "the list has no bounds",
    "snapshots._all": "the list has no bounds",
    "snapshots._builds": "snapshots are few: the manifests that they need are kept, as the rest is removed",
    "snapshots._unneeded": "snapshots are few: they go with their builds, or the cache holds them",
    "cache._entries": "the list has no bounds",
    "build_history._flaky": "the steps of a pipeline's last builds, which its subquery finds by index",
    "repositories._all": "the list has no bounds",
    "repository_checks._hasten_all": "every one, at the start",
}
SORTS = {
    "build_history._slowest": "the steps of a pipeline's last builds, by their mean",
    "build_origins._of_commit": "the builds of one commit, when its host asks for them again",
    "repository_checks._next": "the repositories that are due, by organization",
    "build_origins._of_pipeline": "the builds of one commit and pipeline, at each report of one of them",
    "build_origins._counting": "the builds of one commit, at each report of its check",
    "told._counts": "the annotations of one build, of which each job has at most 500",
}
"""Statements that sort or group a bounded number of rows, with these rows."""

IN_AN_INDEX_OF_FEW = (
    "builds_unfinished",
    "builds_to_cancel",
    "previews_disks",
    "previews_there",
    "renders_unfinished",
    "leases_live",
    "holds_open",
    "proofs_open",
    "builds_to_measure",
    "builds_with_expired_logs",
    "builds_with_unmeasured_source",
    "builds_with_expired_source",
    "builds_with_expired_artifacts",
    "mails_waiting",
    "mails_due",
    "mails_unsent",
    "builds_untold",
    "deliveries_pending",
    "pipeline_triggers_due",
    "jobs_awaiting_locks",
    "jobs_at_gates",
    "job_outputs_expired",
    "json_each",  # of the values that are given
)


def _statements(storage: Storage) -> Iterator[tuple[str, Query | Write]]:
    """Yield every statement of the storage and of its nested parts, by noun and name."""
    for path, statement in _statements_by_path(storage).items():
        yield f"{path.partition('.')[0]}.{path.rpartition('.')[2]}", statement


def _statements_by_path(storage: Storage) -> dict[str, Query | Write]:
    seen: set[int] = set()
    parts = [(name, getattr(storage, name)) for name in PARTS]
    return dict(each for name, part in parts for each in statements_of(name, part, seen))


def _plan(database: Database, sql: str) -> list[str]:
    slots = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", slots)]


def test_every_statement_uses_indexes_and_never_sorts(storage: Storage, database: Database):
    names = set()
    for name, statement in _statements(storage):
        names.add(name)
        steps = _plan(database, statement.sql)
        scans = [
            step for step in steps if step.startswith("SCAN") and not any(index in step for index in IN_AN_INDEX_OF_FEW)
        ]
        if name in READS_ALL:
            assert scans, f"{name} reads all no more: strike it off the list"
            continue
        assert not scans, f"{name}: {steps}"
        sorts = [step for step in steps if "TEMP B-TREE" in step]
        if name in SORTS:
            assert sorts, f"{name} sorts no more: strike it off the list"
            continue
        assert not sorts or _sorts_prerequisites_only(sorts), f"{name}: {steps}"
    assert names >= READS_ALL.keys() | {"tokens._by_hash", "queue._head", "builds._find", "_job_inserter._insert_job"}
    assert len(names) > 50


def _sorts_prerequisites_only(sorts: list[str]) -> bool:
    return sorts == ["USE TEMP B-TREE FOR group_concat(ORDER BY)"]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("builds._page", "builds"),
        ("builds._unfinished", "builds_unfinished"),
        ("builds._unfinished_states", "builds_unfinished"),
        ("builds._to_cancel", "builds_to_cancel"),
        ("pipelines._page", "pipelines_organization (organization_id=? AND rowid>?)"),
        ("pipelines._by_slug", "pipelines_slug (organization_id=? AND slug=?)"),
        ("pipelines._by_source", "pipelines_source (organization_id=? AND repo_name=? AND source_slug=?)"),
        ("build_status._of_branch", "builds_that_count (pipeline_id=? AND branch=?)"),
        ("build_status._of_branch", "pipelines_slug (organization_id=? AND slug=?)"),
        ("build_status._public", "pipelines_visibility (visibility=?)"),
        ("build_status._public", "builds_that_count (pipeline_id=? AND branch=?)"),
        ("build_status._of_reader", "pipelines_organization (organization_id=?)"),
        ("builds._latest", "builds_that_count (pipeline_id=? AND branch=?)"),
        ("schedules._page", "schedules_pipeline (pipeline_id=? AND rowid>?)"),
        ("schedules._due", "schedules_due (next_at>? AND next_at<?)"),
        ("schedules._later", "schedules_due (next_at>?)"),
        ("ended_builds._untold", "builds_untold"),
        ("ended_builds._last_told", "builds_that_count (pipeline_id=? AND branch=?)"),
        ("notification_deliveries._next", "notification_deliveries_due"),
        ("notification_deliveries._end", "notification_deliveries_waiting (notification_id=?"),
        ("pipelines._unfinished_count", "builds_unfinished_of_pipeline (pipeline_id=?)"),
        ("build_room._count", "pipelines_organization (organization_id=?)"),
        ("build_room._count", "USING COVERING INDEX builds_unfinished_of_pipeline (pipeline_id=?)"),
        (
            "build_room._with_source",
            "USING COVERING INDEX builds_unfinished_of_pipeline (pipeline_id=? AND has_source=? AND from_fork>?)",
        ),
        ("idempotency_keys._find", "PRIMARY KEY (user_id=? AND organization_id=? AND key=?)"),
        ("idempotency_keys._forget", "idempotency_keys_made (created_at<?)"),
        ("organizations._page", "PRIMARY KEY"),
        ("ledger._page", "ledger_entries_organization"),
        ("leases._live", "leases_live"),
        ("leases._of_job", "leases_job"),
        ("queue._head", "jobs_queued (organization_id=?)"),
        ("queue._head_after", "jobs_queued (organization_id>?)"),
        ("queue._ahead", "USING COVERING INDEX jobs_queued (organization_id=? AND turn_at<?)"),
        ("queue._of_organization", "USING COVERING INDEX jobs_queued (organization_id=?)"),
        ("queue._wake", "jobs_backing_off"),
        ("queue._next_wake", "jobs_backing_off"),
        ("queue._oldest", "jobs_queued_since"),
        ("queue._overdue", "jobs_queued_since (queued_at<?)"),
        ("queue._past_use", "USING COVERING INDEX leases_used (finished_at>?)"),
        ("usage.total", "leases_usage (organization_id=? AND started_at>? AND started_at<?)"),
        ("usage.total", "holds_usage (organization_id=? AND started_at>? AND started_at<?)"),
        ("usage.each", "leases_usage (organization_id=? AND started_at>? AND started_at<?)"),
        ("usage.each", "holds_usage (organization_id=? AND started_at>? AND started_at<?)"),
        ("holds._open", "holds_open"),
        ("holds._over", "holds_open"),
        ("holds._of_lease", "sqlite_autoindex_holds_1 (lease_id=?)"),
        ("holds._shorten_all", "holds_open"),
        ("ledger._after", "ledger_entries_organization (organization_id=? AND rowid>?)"),
        ("coupons._by_code", "sqlite_autoindex_coupons_1 (code=?)"),
        ("coupons._by_code", "PRIMARY KEY (coupon_id=?)"),
        ("coupons._claim", "PRIMARY KEY (coupon_id=? AND organization_id=?)"),
        ("snapshots._of_job", "sqlite_autoindex_snapshots_1"),
        ("snapshots._in_use", "jobs_with_disk (build_id=?"),
        ("snapshots._unneeded", "jobs_with_disk (build_id=?"),
        ("cache._find", "sqlite_autoindex_cache_entries_1"),
        ("cache._may_hit", "cache_entries_key (pipeline_id=? AND key=?)"),
        ("cache._begun", "jobs_with_disk (build_id=?"),
        ("artifacts._page_of_build", "artifacts_build (build_id=? AND rowid>?)"),
        ("artifacts._page_of_job", "artifacts_job (job_id=? AND rowid>?)"),
        ("artifacts._of_job", "artifacts_job (job_id=?)"),
        ("artifact_retention._bytes", "USING COVERING INDEX builds_with_artifacts"),
        ("artifact_retention._kept", "builds_with_artifacts (finished_at>?)"),
        ("artifact_retention._expired", "builds_with_expired_artifacts"),
        ("source_retention._kept_uuids", "USING COVERING INDEX builds_with_source"),
        ("source_retention._to_measure", "builds_with_unmeasured_source"),
        ("source_retention._expired", "builds_with_expired_source"),
        ("source_retention._bytes", "USING COVERING INDEX builds_with_measured_source"),
        ("source_retention._kept", "builds_with_measured_source (finished_at>?)"),
        ("log_retention._to_measure", "builds_to_measure"),
        ("log_retention._expired", "builds_with_expired_logs"),
        ("log_retention._bytes", "USING COVERING INDEX builds_with_logs"),
        ("log_retention._kept", "builds_with_logs (finished_at>?)"),
    ],
)
def test_lists_and_the_queue_use_their_indexes(storage: Storage, database: Database, statement: str, index: str):
    plans = [_plan(database, found.sql) for name, found in _statements(storage) if name == statement]
    assert any(index in step for plan in plans for step in plan)


def test_a_literal_value_is_written_into_the_sql(storage: Storage, database: Database):
    query = Query(database, lambda: JobRow.select(JobRow.id).where(JobRow.state == "it's"), tuple)
    assert "'it''s'" in query.sql
    assert query.all() == []


def test_a_slot_without_a_value_is_refused(storage: Storage, database: Database):
    query = Query(database, lambda: JobRow.select(JobRow.id).where(JobRow.id == slot("id")), tuple)
    with pytest.raises(apsw.BindingsError, match="bindings"):
        query.one()


def test_a_record_is_read_from_the_columns_of_its_fields():
    columns = Columns.of(Edge, EdgeRow, kind=(slot("kind"), EdgeKind))
    assert columns.selected[:2] == [EdgeRow.from_job, EdgeRow.to_job]
    assert columns((1, 2, "builds_in", 1, 0)) == Edge(1, 2, EdgeKind.BUILDS_IN, continue_on_failure=True)


def test_a_record_is_written_to_the_columns_of_its_fields():
    """`depends_on` has no column, and the shape has three."""
    job = new_job("test", (0, EdgeKind.BUILDS_IN, False), env={"A": "b"}, secrets=("TOKEN",), shape=Shape(1, 2, 3))
    slots: Slots[NewJob] = Slots(NewJob, JobRow, shape=Slots(Shape, JobRow))
    values = slots(job)
    assert (values["cpu"], values["memory_gb"], values["disk_gb"]) == (1, 2, 3)
    assert (values["env"], values["secrets"], values["retry_policy"]) == ('{"A": "b"}', '["TOKEN"]', None)
    assert "depends_on" not in values


def test_a_page_that_ends_exactly_at_its_limit_is_the_last(storage: Storage):
    assert storage.audit.page(2, None) == Page((), None)
    for subject in ("a", "b"):
        storage.audit.write("ann", "try", subject, "why")
    first = storage.audit.page(2, None)
    assert ([entry.subject for entry in first.rows], first.next_key) == (["b", "a"], None)
    storage.audit.write("ann", "try", "c", "why")
    first = storage.audit.page(2, None)
    assert ([entry.subject for entry in first.rows], first.next_key) == (["c", "b"], first.rows[-1].id)
    assert [entry.subject for entry in storage.audit.page(2, first.next_key).rows] == ["a"]


def test_a_written_row_that_is_missing_is_a_bug():
    with pytest.raises(AssertionError):
        written(None)


def test_the_sql_does_not_depend_on_settings(storage: Storage, database: Database, tmp_path: Path, clock: ManualClock):
    """So storages of tests may have it of another one."""
    billing = BillingSettings(cpu=1, memory_gb=2, disk_gb=3, require_credit=True)
    bounds = BuildSettings(max_unfinished=1, max_source_gb=1)
    other = Storage(tmp_path, database, storage.vault, billing, 1, clock, bounds=bounds, strict_shell=True)
    sql = {path: each.sql for path, each in _statements_by_path(storage).items()}
    assert {path: each.sql for path, each in _statements_by_path(other).items()} == sql
    assert len(sql) > 400


def test_statements_hold_no_database_but_their_own(storage: Storage, tmp_path: Path, clock: ManualClock):
    other = Storage.create(tmp_path / "other", clock)
    storage.users.create("a@b.c", "A")
    assert other.users.by_email("a@b.c") is None
    assert other.users.create("a@b.c", "B").name == "B"
    assert storage.users.by_email("a@b.c").name == "A"
    other.close()
    assert storage.users.by_email("a@b.c") is not None
