"""Payments: whatever the provider reports, in whatever order and however often, the money is right."""

from __future__ import annotations

import threading
from itertools import permutations

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import (
    EventEffect,
    EventOutcome,
    LedgerSource,
    NewPaymentEvent,
    Organization,
    PaymentState,
    RefundReport,
    RefundTotal,
    SessionReport,
    Storage,
)
from tests.state import run_sql
from tests.storage.world import World

Report = SessionReport | RefundReport | RefundTotal

OPEN, PROCESSING, PAID, FAILED, EXPIRED = PaymentState


@pytest.fixture
def acme(storage: Storage, world: World) -> Organization:
    acme = storage.organizations.by_id(world.pipeline.organization_id)
    assert acme is not None
    return acme


def session(acme: Organization, state: PaymentState = PAID, cents: int = 1000, name: str = "cs_1") -> SessionReport:
    return SessionReport(name, acme.uuid, state, cents, f"pi_{name}")


def refund(name: str, cents: int, *, failed: bool = False) -> RefundReport:
    return RefundReport(name, "pi_cs_1", cents, failed)


def total(cents: int) -> RefundTotal:
    return RefundTotal("pi_cs_1", cents)


def record(storage: Storage, event: str, report: Report | None, reason: str | None = None) -> EventOutcome:
    return storage.payments.record(NewPaymentEvent(event, "a.type", {"id": event}, report, reason))


def entries(storage: Storage, acme: Organization) -> list[tuple[LedgerSource, int, str | None]]:
    return [(each.source, each.amount_cents, each.description) for each in storage.ledger.entries(acme.id)]


def test_a_paid_session_is_a_credit_that_names_it(storage: Storage, acme: Organization):
    storage.payments.open("cs_1", acme.id, 1000)
    assert storage.ledger.balance(acme.id) == 0
    assert record(storage, "evt_1", session(acme)) == EventOutcome(EventEffect.CREDITED, "acme")

    assert entries(storage, acme) == [(LedgerSource.PAYMENT_TOPUP, 1000, "payment cs_1")]
    payment = storage.payments.by_session("cs_1")
    assert payment is not None
    assert (payment.state, payment.amount_cents, payment.intent) == (PAID, 1000, "pi_cs_1")
    assert run_sql(storage.directory, "SELECT payment_id FROM ledger_entries") == [(payment.id,)]
    assert storage.ledger.verify() == []


def test_the_amount_is_the_sessions_own(storage: Storage, acme: Organization):
    storage.payments.open("cs_1", acme.id, 1000)
    record(storage, "evt_1", session(acme, cents=1190))
    assert storage.ledger.balance(acme.id) == 1190
    assert storage.ledger.verify() == []


@pytest.mark.parametrize("state", [OPEN, PROCESSING, FAILED, EXPIRED])
def test_a_session_that_is_not_paid_leaves_no_trace(storage: Storage, acme: Organization, state: PaymentState):
    storage.payments.open("cs_1", acme.id, 1000)
    assert record(storage, "evt_1", session(acme, state)).effect is EventEffect.NOTED
    payment = storage.payments.by_session("cs_1")
    assert payment is not None
    assert payment.state is state
    assert entries(storage, acme) == []
    assert storage.ledger.verify() == []


@pytest.mark.parametrize("order", list(permutations((PROCESSING, PAID, FAILED, EXPIRED))))
def test_a_paid_session_stays_paid_in_any_order(storage: Storage, acme: Organization, order: tuple[PaymentState, ...]):
    for number, state in enumerate(order):
        record(storage, f"evt_{number}", session(acme, state))
    assert entries(storage, acme) == [(LedgerSource.PAYMENT_TOPUP, 1000, "payment cs_1")]
    assert storage.ledger.verify() == []


def test_an_event_counts_once_and_so_does_a_payment(storage: Storage, acme: Organization):
    assert not record(storage, "evt_1", session(acme)).repeated
    assert record(storage, "evt_1", session(acme)) == EventOutcome(EventEffect.CREDITED, repeated=True)
    assert record(storage, "evt_1", session(acme, name="cs_2")).repeated
    assert record(storage, "evt_2", session(acme)).effect is EventEffect.NOTED
    assert storage.ledger.balance(acme.id) == 1000


def test_twenty_at_once_credit_once(storage: Storage, acme: Organization):
    barrier, outcomes = threading.Barrier(20), list[EventOutcome]()

    def deliver() -> None:
        barrier.wait(10)
        outcomes.append(record(storage, "evt_1", session(acme)))

    threads = [threading.Thread(target=deliver) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 20
    assert [each.repeated for each in outcomes].count(False) == 1
    assert entries(storage, acme) == [(LedgerSource.PAYMENT_TOPUP, 1000, "payment cs_1")]


def test_a_session_of_nobody_here_is_kept_and_credits_nothing(storage: Storage, acme: Organization):
    stranger = SessionReport("cs_9", "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e", PAID, 1000, "pi_9")
    outcome = record(storage, "evt_1", stranger)
    assert (outcome.effect, outcome.reason) == (
        EventEffect.IGNORED,
        "no organization here has the UUID 0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e",
    )
    kept = storage.payments.event("evt_1")
    assert kept is not None
    assert (kept.type, kept.payload, kept.effect) == ("a.type", {"id": "evt_1"}, EventEffect.IGNORED)
    assert storage.payments.by_session("cs_9") is None


def test_a_session_is_of_the_organization_that_began_it(storage: Storage, world: World, acme: Organization):
    other = world.other_pipeline("Other").organization_id
    storage.payments.open("cs_1", other, 1000)
    outcome = record(storage, "evt_1", session(acme))
    assert (outcome.effect, outcome.reason) == (
        EventEffect.IGNORED,
        "the session cs_1 was begun for another organization",
    )
    assert (storage.ledger.balance(acme.id), storage.ledger.balance(other)) == (0, 0)


def test_an_event_without_a_report_is_kept(storage: Storage, acme: Organization):
    assert record(storage, "evt_1", None) == EventOutcome(EventEffect.NOTED)
    assert record(storage, "evt_2", None, "why") == EventOutcome(EventEffect.IGNORED, reason="why")
    assert [storage.payments.event(each) is not None for each in ("evt_1", "evt_2", "evt_3")] == [True, True, False]


def test_partial_refunds_accumulate_however_they_are_told(storage: Storage, acme: Organization):
    record(storage, "evt_1", session(acme))
    told = [total(300), refund("re_1", 300), refund("re_2", 200), total(500), total(300), refund("re_2", 200)]
    effects = [record(storage, f"evt_r{number}", each).effect for number, each in enumerate(told)]

    assert effects == [EventEffect.REFUNDED if number in {0, 2} else EventEffect.NOTED for number in range(6)]
    assert entries(storage, acme)[1:] == [
        (LedgerSource.REFUND, -300, "payment cs_1: refunded"),
        (LedgerSource.REFUND, -200, "payment cs_1: refund re_2"),
    ]
    assert storage.ledger.balance(acme.id) == 500
    assert storage.ledger.verify() == []


def test_a_refund_before_its_payment_waits_for_it(storage: Storage, acme: Organization):
    outcome = record(storage, "evt_1", refund("re_1", 400))
    assert (outcome.effect, outcome.reason) == (
        EventEffect.NOTED,
        "no paid session is known of the payment pi_cs_1",
    )
    record(storage, "evt_2", session(acme))
    assert [cents for _, cents, _ in entries(storage, acme)] == [1000, -400]
    assert storage.ledger.verify() == []


def test_what_was_refunded_comes_back_if_the_refund_fails(storage: Storage, acme: Organization):
    record(storage, "evt_1", session(acme))
    for number, report in enumerate((total(400), refund("re_1", 400), refund("re_1", 400, failed=True))):
        record(storage, f"evt_r{number}", report)
    assert entries(storage, acme)[1:] == [
        (LedgerSource.REFUND, -400, "payment cs_1: refunded"),
        (LedgerSource.REFUND, 400, "payment cs_1: refund re_1 failed"),
    ]
    assert storage.ledger.verify() == []


REPORTS = {
    "paid": 0,
    "processing": 0,
    "expired": 0,
    "total 300": total(300),
    "total 800": total(800),
    "re_1": refund("re_1", 300),
    "re_2": refund("re_2", 500),
    "re_2 failed": refund("re_2", 500, failed=True),
}


@given(st.permutations(list(REPORTS)), st.lists(st.sampled_from(list(REPORTS)), max_size=8))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_and_any_repetition_end_alike(
    storage: Storage, acme: Organization, order: list[str], again: list[str]
):
    run = len(run_sql(storage.directory, "SELECT 1 FROM payments"))
    name = f"cs_{run}"
    before = storage.ledger.balance(acme.id)
    for each in order + again:
        report = REPORTS[each]
        match report:
            case RefundReport():
                told: Report = RefundReport(f"{name} {report.refund}", f"pi_{name}", report.amount_cents, report.failed)
            case RefundTotal():
                told = RefundTotal(f"pi_{name}", report.refunded_cents)
            case _:
                told = session(acme, PaymentState(each), name=name)
        record(storage, f"{name} {each}", told)
        assert storage.ledger.verify() == []
    assert storage.ledger.balance(acme.id) - before == 1000 - 300


def test_verification_compares_payments_with_entries(storage: Storage, world: World, acme: Organization):
    for number, name in enumerate(("missing", "wrong", "back", "early")):
        record(storage, f"evt_{number}", session(acme, FAILED if name == "early" else PAID, name=name))
    record(storage, "evt_r", RefundReport("re_1", "pi_back", 100, failed=False))
    run_sql(
        storage.directory,
        "DROP TRIGGER ledger_entries_refuse_delete; DROP INDEX ledger_entries_topup;"
        "DELETE FROM ledger_entries WHERE description = 'payment missing';"
        "UPDATE payments SET amount_cents = 700 WHERE session = 'wrong';"
        "UPDATE payment_refunds SET amount_cents = 150;",
    )
    early = storage.payments.by_session("early")
    assert early is not None
    storage.ledger.append(acme.id, 1000, LedgerSource.PAYMENT_TOPUP, None, payment_id=early.id)
    stray = storage.ledger.append(acme.id, 5, LedgerSource.PAYMENT_TOPUP, None)
    found = {each.problem for each in storage.ledger.verify() if "balance" not in each.problem}
    assert found == {
        "payment missing is credited 0 cents, the provider reports 1000 as paid",
        "payment wrong is credited 1000 cents, the provider reports 700 as paid",
        "payment early is credited 1000 cents, the provider reports 0 as paid",
        "payment back has refunds of 100 cents in the ledger, the provider reports 150",
        f"the top-up {stray.uuid} of 5 cents has no payment of this organization",
    }


def test_verification_finds_a_double_credit(storage: Storage, acme: Organization):
    record(storage, "evt_1", session(acme))
    payment = storage.payments.by_session("cs_1")
    assert payment is not None
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        _credit_again(storage, acme, payment.id)
    run_sql(storage.directory, "DROP TRIGGER ledger_entries_refuse_replace")
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        _credit_again(storage, acme, payment.id)
    run_sql(storage.directory, "DROP INDEX ledger_entries_topup")
    _credit_again(storage, acme, payment.id)
    assert [each.problem for each in storage.ledger.verify()] == [
        "payment cs_1 is credited 2000 cents, the provider reports 1000 as paid"
    ]


def _credit_again(storage: Storage, acme: Organization, payment_id: int) -> None:
    run_sql(
        storage.directory,
        "INSERT INTO ledger_entries (uuid, organization_id, amount_cents, source, payment_id, created_at)"
        " VALUES ('again', :organization_id, 1000, 'payment_topup', :payment_id, 0)",
        organization_id=acme.id,
        payment_id=payment_id,
    )
