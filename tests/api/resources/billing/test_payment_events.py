"""The payment provider's events: signed ones count once each, in any order; forged ones never."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from falcon import testing

from api import HttpSettings, RateLimitSettings
from storage import AuditFilter, EventEffect, Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.payment_provider import (
    WEBHOOK_SECRET,
    LocalProvider,
    charge,
    event,
    refund,
    signature,
)
from tests.state import run_sql

PATH = "/api/v0/billing/webhook"
COMPLETED = "checkout.session.completed"
SUCCEEDED = "checkout.session.async_payment_succeeded"
FAILED = "checkout.session.async_payment_failed"
EXPIRED = "checkout.session.expired"


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.serving() as provider:
        yield provider


@pytest.fixture
def world(storage: Storage, clock: ManualClock, settings: HttpSettings, provider: LocalProvider) -> World:
    unlimited = RateLimitSettings(10**6, 10**6, 10**6)
    return World.create(storage, clock, settings, unlimited, provider.settings())


@pytest.fixture
def session(ada: Account) -> str:
    """A session that ada began, of 2500 cents."""
    answered = ada.client.simulate_post(f"/api/v0/billing/checkout/{ada.org}", json={"amount_cents": 2500})
    url: str = answered.json["checkout_url"]
    return url.rpartition("/")[2]


def deliver(world: World, body: bytes, signed: str | None = None, **headers: str) -> testing.Result:
    """Deliver a body, by default with its right signature."""
    signed = signature(body) if signed is None else signed
    headers = {"Content-Type": "application/json; charset=utf-8", "Stripe-Signature": signed, **headers}
    return world.anonymous.simulate_post(PATH, body=body, headers=headers)


def tell(world: World, name: str, kind: str, about: dict[str, Any], *, livemode: bool = False) -> tuple[str, bool]:
    """Deliver an event; return its effect, and whether it was repeated."""
    answered = deliver(world, event(name, kind, about, livemode=livemode))
    assert answered.status_code == 200, answered.text
    assert answered.json["id"] == name
    return answered.json["effect"], answered.json["repeated"]


def entries(account: Account) -> list[tuple[str, int, str | None]]:
    """Return the entries after the first one, oldest first."""
    listed = account.client.simulate_get(f"/api/v0/billing/transactions/{account.org}").json["data"]
    return [(each["source"], each["amount_cents"], each["description"]) for each in reversed(listed)][1:]


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_paid_session_is_a_top_up(world: World, ada: Account, provider: LocalProvider, session: str):
    assert tell(world, "evt_1", COMPLETED, provider.paid(session)) == ("credited", False)

    assert entries(ada) == [("payment_topup", 2500, f"payment {session}")]
    assert ada.client.simulate_get(f"/api/v0/billing/balance/{ada.org}").json == {"balance_cents": 3500}
    assert world.storage.ledger.verify() == []


def test_a_bank_transfer_is_a_top_up_when_it_arrives(world: World, ada: Account, provider: LocalProvider, session: str):
    unpaid = provider.paid(session) | {"payment_status": "unpaid"}
    assert tell(world, "evt_1", COMPLETED, unpaid) == ("noted", False)
    assert entries(ada) == []
    assert tell(world, "evt_2", SUCCEEDED, unpaid | {"payment_status": "paid"}) == ("credited", False)
    assert entries(ada) == [("payment_topup", 2500, f"payment {session}")]


@pytest.mark.parametrize("kinds", [(EXPIRED,), (COMPLETED, FAILED), (FAILED, COMPLETED), (SUCCEEDED,), (COMPLETED,)])
def test_an_unpaid_session_leaves_no_trace(
    world: World, ada: Account, provider: LocalProvider, session: str, kinds: tuple[str, ...]
):
    for number, kind in enumerate(kinds):
        assert tell(world, f"evt_{number}", kind, provider.sessions[session]) == ("noted", False)
    assert entries(ada) == []
    assert world.storage.ledger.verify() == []


def test_late_news_of_a_paid_session_change_nothing(world: World, ada: Account, provider: LocalProvider, session: str):
    unpaid = dict(provider.sessions[session])
    tell(world, "evt_1", SUCCEEDED, provider.paid(session))
    for number, kind in enumerate((COMPLETED, FAILED, EXPIRED)):
        assert tell(world, f"evt_late_{number}", kind, unpaid) == ("noted", False)
    assert tell(world, "evt_2", COMPLETED, provider.sessions[session]) == ("noted", False)
    assert entries(ada) == [("payment_topup", 2500, f"payment {session}")]


def test_an_event_has_its_effect_once(world: World, ada: Account, provider: LocalProvider, session: str):
    body = event("evt_1", COMPLETED, provider.paid(session))
    first, second = deliver(world, body), deliver(world, body)
    assert (first.json, second.json) == (
        {"id": "evt_1", "effect": "credited", "repeated": False},
        {"id": "evt_1", "effect": "credited", "repeated": True},
    )
    other = provider.sessions[session] | {"id": "cs_other", "amount_total": 9999}
    assert tell(world, "evt_1", COMPLETED, other) == ("credited", True)
    assert entries(ada) == [("payment_topup", 2500, f"payment {session}")]


@pytest.mark.parametrize("names", [["evt_1"] * 20, [f"evt_{number}" for number in range(20)]])
def test_twenty_at_once_credit_once(
    world: World, ada: Account, provider: LocalProvider, session: str, names: list[str]
):
    paid, barrier, effects = provider.paid(session), threading.Barrier(20), list[tuple[str, bool]]()

    def at_once(name: str) -> None:
        barrier.wait(10)
        effects.append(tell(world, name, COMPLETED, paid))

    threads = [threading.Thread(target=at_once, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(effects) == 20
    assert effects.count(("credited", False)) == 1
    assert entries(ada) == [("payment_topup", 2500, f"payment {session}")]


def test_refunds_at_the_provider_are_debits(world: World, ada: Account, provider: LocalProvider, session: str):
    tell(world, "evt_1", COMPLETED, provider.paid(session))
    told = [
        ("refund.created", refund("re_1", 700, session, "pending")),
        ("charge.refunded", charge(700, session)),
        ("refund.updated", refund("re_1", 700, session)),
        ("charge.refunded", charge(1700, session)),
        ("refund.created", refund("re_2", 1000, session)),
    ]
    effects = [tell(world, f"evt_r{number}", *each)[0] for number, each in enumerate(told)]
    assert effects == ["refunded", "noted", "noted", "refunded", "noted"]
    assert entries(ada)[1:] == [
        ("refund", -700, f"payment {session}: refund re_1"),
        ("refund", -1000, f"payment {session}: refunded"),
    ]
    assert world.storage.ledger.balance(ada.org_id) == 1000 + 2500 - 1700
    assert world.storage.ledger.verify() == []


def test_refunds_that_come_at_once_add_up(world: World, ada: Account, provider: LocalProvider, session: str):
    tell(world, "evt_1", COMPLETED, provider.paid(session))
    told = [("refund.created", refund(f"re_{number}", 50, session)) for number in range(10)]
    told += [("charge.refunded", charge(50 * number, session)) for number in range(1, 11)]
    barrier = threading.Barrier(20)

    def at_once(number: int) -> None:
        barrier.wait(10)
        tell(world, f"evt_r{number}", *told[number])

    threads = [threading.Thread(target=at_once, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(cents for _, cents, _ in entries(ada)) == 2500 - 500
    assert world.storage.ledger.verify() == []


def test_a_refund_may_come_before_its_payment(world: World, ada: Account, provider: LocalProvider, session: str):
    paid = provider.paid(session)
    assert tell(world, "evt_1", "charge.refunded", charge(2500, session)) == ("noted", False)
    assert entries(ada) == []
    assert tell(world, "evt_2", COMPLETED, paid) == ("credited", False)
    assert [cents for _, cents, _ in entries(ada)] == [2500, -2500]


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_a_refund_that_fails_is_credited_again(
    world: World, ada: Account, provider: LocalProvider, session: str, status: str
):
    tell(world, "evt_1", COMPLETED, provider.paid(session))
    tell(world, "evt_2", "refund.created", refund("re_1", 700, session, "pending"))
    assert tell(world, "evt_3", "refund.updated", refund("re_1", 700, session, status)) == ("refunded", False)
    assert tell(world, "evt_4", "refund.created", refund("re_1", 700, session, "pending")) == ("noted", False)
    assert [cents for _, cents, _ in entries(ada)] == [2500, -700, 700]
    assert world.storage.ledger.verify() == []


def test_a_payment_intent_may_be_given_whole(world: World, ada: Account, provider: LocalProvider, session: str):
    whole = {"id": f"pi_{session}", "object": "payment_intent"}
    tell(world, "evt_1", COMPLETED, provider.paid(session) | {"payment_intent": whole})
    tell(world, "evt_2", "refund.created", refund("re_1", 2500, session))
    assert [cents for _, cents, _ in entries(ada)] == [2500, -2500]


FOREIGN = {
    "another currency": ({"currency": "eur"}, "is in eur, payments.currency is usd"),
    "no currency": ({"currency": None}, "is in no currency, payments.currency is usd"),
    "no organization": ({"metadata": {}}, "is not one of this service"),
    "no metadata": ({"metadata": None}, "is not one of this service"),
    "an organization by reference alone": (
        {"metadata": {}, "client_reference_id": "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"},
        "is not one of this service",
    ),
    "an unknown organization": (
        {"metadata": {"ci_daemon_organization": "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"}},
        "no organization here has the UUID 0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e",
    ),
    "a subscription": ({"mode": "subscription"}, "is not one of this service"),
    "nothing to pay": ({"amount_total": 0}, "has no amount"),
    "no amount": ({"amount_total": None}, "has no amount"),
}


@pytest.mark.parametrize(("changes", "reason"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_session_is_kept_and_credits_nothing(
    world: World,
    ada: Account,
    provider: LocalProvider,
    session: str,
    changes: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.WARNING)
    assert tell(world, "evt_1", COMPLETED, provider.paid(session) | changes) == ("ignored", False)
    assert entries(ada) == []
    kept = world.storage.payments.event("evt_1")
    assert kept is not None
    assert kept.effect is EventEffect.IGNORED
    assert reason in caplog.text


def test_play_money_is_no_money(world: World, storage: Storage, ada: Account, provider: LocalProvider, session: str):
    live = World.create(storage, world.clock, HttpSettings(), payments=provider.settings(secret_key="sk_live_1"))
    paid = provider.paid(session)
    assert tell(live, "evt_1", COMPLETED, paid) == ("ignored", False)
    assert tell(world, "evt_2", COMPLETED, paid, livemode=True) == ("ignored", False)
    assert tell(live, "evt_3", "charge.refunded", charge(5, session)) == ("ignored", False)
    assert entries(ada) == []
    assert tell(live, "evt_4", COMPLETED, paid, livemode=True) == ("credited", False)


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("charge.refunded", charge(500, "cs_of_others")),
        ("charge.refunded", charge(500, "cs_of_others") | {"payment_intent": None}),
        ("refund.created", refund("re_1", 500, "cs_of_others")),
        ("refund.created", refund("re_1", 500, "cs_of_others") | {"currency": "eur"}),
        ("refund.failed", refund("re_1", 500, "cs_of_others") | {"payment_intent": None}),
    ],
)
def test_a_refund_of_an_unknown_payment_is_kept(world: World, ada: Account, kind: str, about: dict[str, Any]):
    effect, _ = tell(world, "evt_1", kind, about)
    assert effect in {"noted", "ignored"}
    assert entries(ada) == []
    assert world.storage.payments.event("evt_1") is not None


def test_an_event_of_another_type_is_kept(world: World):
    assert tell(world, "evt_1", "customer.created", {"id": "cus_1", "email": "a@example.org"}) == ("noted", False)
    kept = world.storage.payments.event("evt_1")
    assert kept is not None
    assert (kept.type, kept.received_at) == ("customer.created", world.clock.now())
    assert kept.payload["data"] == {"object": {"id": "cus_1"}}


def test_no_person_and_no_card_is_kept(world: World, storage: Storage, provider: LocalProvider, session: str):
    tell(world, "evt_1", COMPLETED, provider.paid(session))
    tell(world, "evt_2", "charge.refunded", charge(5, session))
    kept = json.dumps(run_sql(storage.directory, "SELECT payload FROM payment_events"))
    assert "payer@example.org" not in kept
    assert "A Payer" not in kept
    assert "4242" not in kept
    assert "amount_total" in kept


FORGERIES: dict[str, Any] = {
    "nothing": lambda _body: "",
    "noise": lambda _body: "t",
    "no time": lambda body: signature(body).partition(",")[2],
    "no signature": lambda body: signature(body).partition(",")[0],
    "another secret": lambda body: signature(body, "whsec_of_somebody"),
    "no secret": lambda body: signature(body, ""),
    "another body": lambda body: signature(body + b" "),
    "an old scheme": lambda body: signature(body).replace("v1=", "v0="),
    "another time": lambda body: signature(body, seconds_ago=10).replace("t=1", "t=2"),
    "a replay after 300 s": lambda body: signature(body, seconds_ago=302),
    "half a signature": lambda body: signature(body)[:-32],
    "letters beyond ASCII": lambda body: signature(body)[:-1] + "é",
    "an endless time": lambda _body: "t=" + "9" * 5000 + ",v1=" + "0" * 64,
    "NUL": lambda body: signature(body)[:-1] + "\0",
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_changes_nothing(
    world: World, ada: Account, storage: Storage, provider: LocalProvider, session: str, forged: Any
):
    body = event("evt_1", COMPLETED, provider.paid(session))
    assert code(deliver(world, body, forged(body))) == (400, "webhook_signature_invalid")
    assert run_sql(storage.directory, "SELECT * FROM payment_events") == []
    assert entries(ada) == []
    assert world.storage.audit.page(10, None, AuditFilter(action="receivePaymentEvent")).rows == ()


def test_a_forgery_without_the_header_is_refused(world: World):
    body = event("evt_1", COMPLETED, {})
    answered = world.anonymous.simulate_post(PATH, body=body, headers={"Content-Type": "application/json"})
    assert code(answered) == (400, "webhook_signature_invalid")


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b"2500", b"9500"),
        lambda body: body.replace(b"\n", b"\r\n"),
        lambda body: body.replace(b"  ", b" "),
        lambda body: b"\xef\xbb\xbf" + body,
        lambda body: body + b"\n",
        lambda body: json.dumps(json.loads(body)).encode(),
        lambda body: body.replace(b"evt_1", b"evt_\xff"),
    ],
)
def test_a_body_that_was_altered_is_refused(world: World, provider: LocalProvider, session: str, change: Any):
    body = event("evt_1", COMPLETED, provider.paid(session))
    assert code(deliver(world, change(body), signature(body))) == (400, "webhook_signature_invalid")


@pytest.mark.parametrize("seconds", [0, 290, -3600])
def test_a_signature_holds_for_300_seconds(world: World, provider: LocalProvider, session: str, seconds: int):
    body = event("evt_1", COMPLETED, provider.paid(session))
    assert deliver(world, body, signature(body, seconds_ago=seconds)).status_code == 200


def test_one_right_signature_of_several_is_enough(world: World, provider: LocalProvider, session: str):
    """While the secret is changed at the provider, it signs with the old and the new one."""
    body = event("evt_1", COMPLETED, provider.paid(session))
    stamp, _, right = signature(body).partition(",")
    _, _, old = signature(body, "whsec_of_before").partition(",")
    assert deliver(world, body, f"{stamp},{old},v0=abc,{right}").status_code == 200
    assert code(deliver(world, body, f"{stamp},{old},{old}")) == (400, "webhook_signature_invalid")


@pytest.mark.parametrize("body", [b"", b" ", b"{", b'{"a": NaN}'])
def test_a_signed_body_that_is_no_json_is_refused(world: World, body: bytes):
    assert code(deliver(world, body)) == (400, "malformed_json")


def test_a_signed_body_that_is_no_event_is_refused(world: World, ada: Account, provider: LocalProvider, session: str):
    paid = provider.paid(session)
    bodies = [
        b"[]",
        b"null",
        b'{"id": "evt_1"}',
        b'{"id": 7, "type": "a", "data": {"object": {}}}',
        b'{"id": "evt_1", "type": "a", "data": {"object": []}}',
        event("", COMPLETED, paid),
        event("e" * 256, COMPLETED, paid),
        event("evt_1", COMPLETED, {}),
        event("evt_1", COMPLETED, paid | {"amount_total": "2500"}),
        event("evt_1", COMPLETED, paid | {"amount_total": 25.5}),
        event("evt_1", COMPLETED, paid | {"amount_total": -2500}),
        event("evt_1", COMPLETED, paid | {"amount_total": 10**40}),
        event("evt_1", COMPLETED, paid | {"metadata": {"ci_daemon_organization": 7}}),
        event("evt_1", "charge.refunded", charge(-5, session)),
        event("evt_1", "refund.created", refund("re_1", -5, session)),
    ]
    for body in bodies:
        assert code(deliver(world, body)) == (422, "invalid_body"), body
    assert entries(ada) == []
    assert world.storage.payments.event("evt_1") is None


@pytest.mark.parametrize("media_type", ["text/plain", "application/json; charset=latin-1"])
def test_a_body_of_another_type_is_refused(world: World, media_type: str):
    body = event("evt_1", "a.type", {})
    assert code(deliver(world, body, **{"Content-Type": media_type})) == (415, "unsupported_media_type")


def test_without_a_provider_nobody_is_believed(storage: Storage, clock: ManualClock, settings: HttpSettings):
    world = World.create(storage, clock, settings)
    for secret in (WEBHOOK_SECRET, "", "whsec_"):
        body = event("evt_1", "a.type", {})
        assert code(deliver(world, body, signature(body, secret))) == (503, "billing_unconfigured")


def test_forgeries_are_limited_and_events_are_not(
    storage: Storage, clock: ManualClock, settings: HttpSettings, provider: LocalProvider
):
    limits = RateLimitSettings(address_per_minute=1, failures_per_minute=3)
    world = World.create(storage, clock, settings, limits, provider.settings())
    body = event("evt_1", "a.type", {})
    assert [deliver(world, body, "t=1,v1=2").status_code for _ in range(4)] == [400, 400, 400, 429]
    assert [deliver(world, body).status_code for _ in range(3)] == [200, 200, 200]


def test_credits_are_in_the_audit(world: World, ada: Account, provider: LocalProvider, session: str):
    tell(world, "evt_1", COMPLETED, provider.paid(session))
    (entry,) = world.storage.audit.page(10, None, AuditFilter(organization=ada.org, action="receivePaymentEvent")).rows
    assert (entry.actor, entry.subject) == ("payment provider", "evt_1")
    assert entry.note.startswith("credited, api, request ")


def test_an_account_that_closed_meanwhile_is_credited(
    world: World, ada: Account, storage: Storage, provider: LocalProvider, session: str
):
    storage.accounts.close(ada.user.id)
    assert tell(world, "evt_1", COMPLETED, provider.paid(session)) == ("credited", False)
    assert storage.ledger.balance(ada.org_id) == 3500
