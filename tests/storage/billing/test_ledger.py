from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import JobState, LedgerSource, Outcome, Storage
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World

GRANT = LedgerSource.ADMIN_GRANT


@pytest.fixture
def shell(storage: Storage):
    """A plain connection from outside the storage, without our settings."""
    connection = apsw.Connection(str(storage.directory / "ci-daemon.sqlite3"))
    yield connection
    connection.close()


def test_entries_add_up_to_the_balance(storage: Storage, world: World, clock: ManualClock):
    organization_id = world.pipeline.organization_id
    assert storage.ledger.balance(organization_id) == 0
    entry = storage.ledger.append(organization_id, 500, GRANT, "Welcome")
    assert (entry.amount_cents, entry.source, entry.description) == (500, GRANT, "Welcome")
    assert entry.created_at == clock.now()
    storage.ledger.append(organization_id, -700, LedgerSource.REFUND, None)
    assert storage.ledger.balance(organization_id) == -200
    assert storage.ledger.balance(999) == 0


def test_pages_show_an_organizations_entries_newest_first(storage: Storage, world: World):
    other = world.other_pipeline("Other").organization_id
    for cents in range(1, 6):
        storage.ledger.append(world.pipeline.organization_id, cents, GRANT, None)
        storage.ledger.append(other, 100, GRANT, None)
    first = storage.ledger.page(world.pipeline.organization_id, 3, None)
    second = storage.ledger.page(world.pipeline.organization_id, 3, first.next_key)
    assert [entry.amount_cents for entry in first.rows + second.rows] == [5, 4, 3, 2, 1]
    assert second.next_key is None


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE ledger_entries SET amount_cents = 1",
        "UPDATE OR REPLACE ledger_entries SET description = 'x'",
        "DELETE FROM ledger_entries",
        (
            "INSERT OR REPLACE INTO ledger_entries SELECT id, uuid, organization_id, 1, source, NULL, NULL, 0, NULL"
            " FROM ledger_entries"
        ),
        (
            "INSERT OR REPLACE INTO ledger_entries SELECT NULL, uuid, organization_id, 1, source, NULL, NULL, 0, NULL"
            " FROM ledger_entries"
        ),
        (
            "REPLACE INTO ledger_entries SELECT NULL, 'u', organization_id, 1, 'vm_lease_debit', NULL, job_id, 0, NULL"
            " FROM ledger_entries WHERE job_id IS NOT NULL"
        ),
        (
            "REPLACE INTO ledger_entries SELECT NULL, 'u', organization_id, 1, source, NULL, NULL, 0, payment_id"
            " FROM ledger_entries WHERE payment_id IS NOT NULL"
        ),
    ],
)
def test_no_entry_is_ever_changed_deleted_or_replaced(
    storage: Storage, world: World, shell: apsw.Connection, attack: str
):
    job = world.job(world.build())
    world.finish(job, world.start(job))
    storage.payments.open("cs_1", world.pipeline.organization_id, 500)
    payment = storage.payments.by_session("cs_1")
    assert payment is not None
    topup = LedgerSource.PAYMENT_TOPUP
    storage.ledger.append(world.pipeline.organization_id, 500, topup, None, payment_id=payment.id)
    before = storage.ledger.page(world.pipeline.organization_id, 10, None)
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        shell.execute(attack)
    assert storage.ledger.page(world.pipeline.organization_id, 10, None) == before
    assert storage.ledger.balance(world.pipeline.organization_id) == 500


def test_a_job_is_never_debited_twice(storage: Storage, database: Database, world: World):
    job = world.job(world.build())
    world.finish(job, world.start(job))
    with pytest.raises(Exception, match="append-only"), database.write():
        storage.ledger.debit_job(job.id)
    assert len(storage.ledger.page(world.pipeline.organization_id, 10, None).rows) == 1


def test_a_sound_ledger_verifies(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lease = world.start(job)
    clock.advance(hours=1)
    world.finish(job, lease)
    world.start(world.job(world.build()))
    storage.jobs.move(world.job(world.build()).id, JobState.SCHEDULED, JobState.CANCELED)
    storage.ledger.append(world.pipeline.organization_id, 500, GRANT, None)
    assert storage.ledger.verify() == []


def test_verification_finds_discrepancies(storage: Storage, world: World, clock: ManualClock, shell: apsw.Connection):
    jobs = world.jobs(world.build(new_job("dear"), new_job("missing")))
    for job in jobs:
        lease = world.start(job)
        clock.advance(seconds=240)
        world.finish(job, lease)
    shell.execute("UPDATE organizations SET balance_cents = 7 WHERE slug = 'acme'")
    shell.execute("UPDATE leases SET amount_cents = 99 WHERE job_id = ?", (jobs[0].id,))
    shell.execute("DROP TRIGGER ledger_entries_refuse_delete")
    shell.execute("DELETE FROM ledger_entries WHERE job_id = ?", (jobs[1].id,))
    found = {(discrepancy.organization_slug, discrepancy.problem) for discrepancy in storage.ledger.verify()}
    assert found == {
        ("acme", "the balance is kept as 7 cents, the entries sum up to -10"),
        ("acme", f"job {jobs[0].uuid} is debited 10 cents, its leases cost 99"),
        ("acme", f"job {jobs[1].uuid} has no debit, its leases cost 10"),
    }


def test_entries_from_many_threads_all_count(storage: Storage, world: World):
    def append() -> None:
        for _ in range(25):
            storage.ledger.append(world.pipeline.organization_id, 1, GRANT, None)

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.ledger.balance(world.pipeline.organization_id) == 100
    assert storage.ledger.verify() == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assign", "start", "finish", "retry", "cancel", "end", "grant"]),
            st.integers(0, 2),
            st.integers(0, 500),
            st.booleans(),
        ),
        max_size=25,
    )
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_in_whatever_order_money_adds_up(
    world: World, clock: ManualClock, events: list[tuple[str, int, int, bool]]
):
    storage = world.storage
    jobs = world.jobs(world.build(*(new_job(str(number)) for number in range(3))))
    for event, which, seconds, billable in events:
        clock.advance(seconds=seconds)
        job = jobs[which]
        lease = storage.leases.of_job(job.id)
        match event:
            case "grant":
                storage.ledger.append(world.pipeline.organization_id, seconds, GRANT, None)
            case "assign":
                world.assign(job)
            case "cancel":
                storage.jobs.move(job.id, world.state(job), JobState.CANCELED)
            case "start" if lease:
                storage.leases.start(lease.id, job.id)
            case "finish":
                world.finish(job, lease, billable=billable)
            case "retry":
                lease_id = lease.id if lease else None
                storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease_id, billable=billable)
            case "end" if lease:
                storage.leases.end(lease.id)
    assert storage.ledger.verify() == []
    for job in jobs:
        attempts = storage.attempts.of_job(job.id)
        assert [attempt.number for attempt in attempts] == list(range(1, len(attempts) + 1))
        assert all(attempt.finished_at for attempt in attempts[:-1])


def test_a_ledger_is_append_only_after_the_database_was_closed(tmp_path: Path, clock: ManualClock):
    with_storage = Storage.create(tmp_path / "other", clock)
    owner = with_storage.users.create("a@b.c", "A")
    organization = with_storage.organizations.create("O", "", owner.id)
    with_storage.ledger.append(organization.id, 1, GRANT, None)
    with_storage.close()
    connection = apsw.Connection(str(tmp_path / "other" / "ci-daemon.sqlite3"))
    with pytest.raises(apsw.ConstraintError):
        connection.execute("DELETE FROM ledger_entries")
    connection.close()
