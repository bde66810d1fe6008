"""Checkout: a session at the payment provider, which changes no balance."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest
from falcon import testing

from api import HttpSettings, RateLimitSettings
from storage import AuditFilter, Role, Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.payment_provider import SECRET_KEY, Fault, LocalProvider
from tests.ports import reserved_port


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.serving() as provider:
        yield provider


@pytest.fixture
def world(storage: Storage, clock: ManualClock, settings: HttpSettings, provider: LocalProvider) -> World:
    unlimited = RateLimitSettings(10**6, 10**6, 10**6)
    return World.create(storage, clock, settings, unlimited, provider.settings(timeout=0.5))


def checkout(account: Account, cents: object = 2500, org: str | None = None, **headers: str) -> testing.Result:
    path = f"/api/v0/billing/checkout/{org or account.org}"
    return account.client.simulate_post(path, json={"amount_cents": cents}, headers=headers)


def refused(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_checkout_is_a_page_at_the_provider_and_no_money(world: World, ada: Account, provider: LocalProvider):
    answered = checkout(ada)

    assert (answered.status_code, answered.json) == (200, {"checkout_url": f"{provider.url}/pay/cs_test_1"})
    assert ada.client.simulate_get(f"/api/v0/billing/balance/{ada.org}").json == {"balance_cents": 1000}
    payment = world.storage.payments.by_session("cs_test_1")
    assert payment is not None
    assert (payment.organization_id, payment.state, payment.amount_cents) == (ada.org_id, "open", 2500)
    assert world.storage.ledger.verify() == []


def test_the_provider_is_asked_as_it_documents(world: World, ada: Account, provider: LocalProvider):
    checkout(ada)
    (asked,) = provider.asked
    organization = world.storage.organizations.by_slug(ada.org)
    assert organization is not None
    assert asked.form == {
        "mode": "payment",
        "line_items[0][quantity]": "1",
        "line_items[0][price_data][currency]": "usd",
        "line_items[0][price_data][unit_amount]": "2500",
        "line_items[0][price_data][product_data][name]": f"CI credit for {ada.org}",
        "adaptive_pricing[enabled]": "false",
        "metadata[ci_daemon_organization]": organization.uuid,
        "payment_intent_data[description]": f"CI credit for {ada.org}",
        "payment_intent_data[metadata][ci_daemon_organization]": organization.uuid,
        "success_url": "https://ci.example.org/billing/paid",
        "cancel_url": "https://ci.example.org/billing/canceled",
    }
    assert asked.headers["authorization"] == f"Bearer {SECRET_KEY}"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert len(asked.headers["idempotency-key"]) >= 32


def test_nothing_about_this_host_is_told(ada: Account, provider: LocalProvider):
    checkout(ada)
    (asked,) = provider.asked
    told = {name: asked.headers[name] for name in asked.headers.keys() - {"authorization", "idempotency-key"}}
    assert told == {
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-length": asked.headers["content-length"],
        "content-type": "application/x-www-form-urlencoded",
        "host": provider.url.removeprefix("http://"),
        "stripe-version": "2026-10-28.endive",
        "user-agent": "ci-daemon",
    }


def test_a_provider_that_redirects_is_not_followed(ada: Account, provider: LocalProvider):
    with LocalProvider.serving() as elsewhere:
        provider.faults.append(Fault(302, headers={"Location": f"{elsewhere.url}/v1/checkout/sessions"}))
        assert refused(checkout(ada)) == (502, "billing_provider_error")
        assert (len(provider.asked), elsewhere.asked) == (1, [])


def test_a_provider_that_answers_without_end_is_left(ada: Account, provider: LocalProvider):
    provider.faults += [Fault(200, b" " * (2**20 + 1))] * 2
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    assert len(provider.asked) == 2


def test_a_provider_that_answers_byte_by_byte_is_left(ada: Account, provider: LocalProvider):
    """Each byte comes well within the time-out, of 0.5 s, but not the whole answer."""
    provider.faults += [Fault(200, b" " * 100, slow=True)] * 2
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    assert len(provider.asked) == 2


@pytest.mark.parametrize(("asks", "tries"), [("true", 2), ("false", 1)])
def test_the_provider_says_whether_to_try_again(ada: Account, provider: LocalProvider, asks: str, tries: int):
    provider.faults += [Fault(503 if asks == "false" else 400, headers={"Stripe-Should-Retry": asks})] * 2
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    assert len(provider.asked) == tries


@pytest.mark.parametrize(("role", "status"), [(Role.MEMBER, 403), (Role.ADMIN, 200), (Role.OWNER, 200)])
def test_admins_and_owners_pay(ada: Account, bob: Account, provider: LocalProvider, role: Role, status: int):
    bob.join(ada, role)
    assert checkout(bob, org=ada.org).status_code == status
    assert len(provider.asked) == (status == 200)


def test_outsiders_begin_nothing(world: World, ada: Account, bob: Account, provider: LocalProvider):
    assert refused(checkout(bob, org=ada.org)) == (404, "organization_not_found")
    assert world.anonymous.simulate_post(f"/api/v0/billing/checkout/{ada.org}").status_code == 401
    assert provider.asked == []


@pytest.mark.parametrize("cents", [99, 1_000_001, 0, -2500, 10**30])
def test_an_amount_out_of_range_is_refused(ada: Account, provider: LocalProvider, cents: int):
    answered = checkout(ada, cents)
    assert refused(answered) == (422, "invalid_amount")
    assert answered.json["error"]["message"].startswith("amount_cents: expected 100 to 1000000 cents")
    assert provider.asked == []


@pytest.mark.parametrize("cents", [None, "2500", 2500.0, True, [2500]])
def test_an_amount_that_is_no_number_is_refused(ada: Account, cents: object):
    assert refused(checkout(ada, cents)) == (422, "invalid_body")


@pytest.mark.parametrize("cents", [100, 1_000_000])
def test_the_least_and_the_most_may_be_paid(ada: Account, cents: int):
    assert checkout(ada, cents).status_code == 200


def test_a_key_gives_the_same_page_again(ada: Account, bob: Account, provider: LocalProvider):
    bob.join(ada, Role.ADMIN)
    key = {"Idempotency-Key": "order-1"}
    first, second = checkout(ada, **key), checkout(ada, **key)
    assert first.json == second.json
    assert refused(checkout(ada, 2600, **key)) == (409, "idempotency_conflict")
    assert checkout(bob, 2600, org=ada.org, **key).json != first.json
    assert checkout(ada).json != checkout(ada).json
    assert len({asked.headers["idempotency-key"] for asked in provider.asked}) == 4
    assert refused(checkout(ada, **{"Idempotency-Key": "x" * 256})) == (422, "invalid_idempotency_key")


def test_a_key_gives_one_page_to_twenty_at_once(world: World, ada: Account, provider: LocalProvider):
    answers = list[testing.Result]()
    # The service asks the provider at most 16 times at once: the twenty come in two waves.
    for size in (10, 10):
        threads = [
            threading.Thread(target=lambda: answers.append(checkout(ada, **{"Idempotency-Key": "order-1"})))
            for _ in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [answered.status_code for answered in answers] == [200] * 20
    assert len({answered.json["checkout_url"] for answered in answers}) == len(provider.sessions) == 1


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"\xff\xfe",
    b"<html>a proxy</html>",
    b"{}",
    b'{"id": "cs_1"}',
    b'{"id": 7, "url": 8}',
    b'{"id": "", "url": "https://pay.example.org/"}',
    b'{"id": "cs_1", "url": "javascript:alert(1)"}',
    b'{"id": "cs_1", "url": "https://pay.example.org/\\r\\nX: y"}',
    b'{"error": {"message": "no"}}',
]


@pytest.mark.parametrize("status", [200, 400, 402, 403, 404])
@pytest.mark.parametrize("body", GARBAGE)
def test_a_provider_that_talks_nonsense_is_a_502(
    world: World, ada: Account, provider: LocalProvider, status: int, body: bytes
):
    provider.faults.append(Fault(status, body))
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    assert len(provider.asked) == 1
    assert world.storage.payments.by_session("cs_1") is None


@pytest.mark.parametrize("fault", [Fault(), Fault(500), Fault(503, b"{}"), Fault(409, b"{}")])
def test_a_fault_is_tried_once_more_with_the_same_key(ada: Account, provider: LocalProvider, fault: Fault):
    provider.faults.append(fault)
    assert checkout(ada).status_code == 200
    first, second = provider.asked
    assert (first.form, first.headers["idempotency-key"]) == (second.form, second.headers["idempotency-key"])

    provider.faults += [fault, fault, fault]
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    assert len(provider.asked) == 4


def test_a_provider_that_does_not_answer_is_left(ada: Account, provider: LocalProvider):
    provider.faults += [Fault(late=True)] * 2
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    assert len(provider.asked) == 2


def test_a_provider_that_hangs_does_not_take_all_threads(
    storage: Storage, clock: ManualClock, settings: HttpSettings, provider: LocalProvider
):
    patient = World.create(storage, clock, settings, payments=provider.settings(timeout=30))
    ada = patient.sign_up("ada@example.org")
    provider.faults += [Fault(late=True, status=400)] * 16
    threads = [threading.Thread(target=checkout, args=(ada,)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert provider.arrived.acquire(timeout=10)
    assert refused(checkout(ada)) == (502, "billing_provider_error")
    provider.over.set()
    for thread in threads:
        thread.join()
    assert checkout(ada).status_code == 200


def test_a_provider_that_is_away_is_a_502(storage: Storage, clock: ManualClock, settings: HttpSettings):
    with reserved_port() as port:
        away = LocalProvider(f"http://127.0.0.1:{port}")
        world = World.create(storage, clock, settings, payments=away.settings())
        assert refused(checkout(world.sign_up("ada@example.org"))) == (502, "billing_provider_error")


def test_a_wrong_key_is_told_to_the_owner_alone(
    storage: Storage,
    clock: ManualClock,
    settings: HttpSettings,
    provider: LocalProvider,
    caplog: pytest.LogCaptureFixture,
):
    world = World.create(storage, clock, settings, payments=provider.settings(secret_key="sk_test_wrong"))
    answered = checkout(world.sign_up("ada@example.org"))
    assert refused(answered) == (502, "billing_provider_error")
    assert "Invalid API Key" not in answered.text
    assert "401, request req_of_the_tests: Invalid API Key provided" in caplog.text


def test_no_key_and_no_body_is_logged(ada: Account, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        checkout(ada)
    assert "cs_test_1" in caplog.text
    assert SECRET_KEY not in caplog.text
    assert "unit_amount" not in caplog.text


def test_without_a_provider_nobody_pays(storage: Storage, clock: ManualClock, settings: HttpSettings):
    world = World.create(storage, clock, settings)
    ada = world.sign_up("ada@example.org")
    assert refused(checkout(ada, 7)) == (422, "invalid_amount")
    assert refused(checkout(ada)) == (503, "billing_unconfigured")


def test_checkouts_are_limited(storage: Storage, clock: ManualClock, settings: HttpSettings, provider: LocalProvider):
    limits = RateLimitSettings(account_per_minute=3)
    world = World.create(storage, clock, settings, limits, provider.settings())
    eve = world.sign_up("eve@example.org")
    assert [checkout(eve).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_checkout_is_in_the_audit(world: World, ada: Account):
    checkout(ada)
    (entry,) = world.storage.audit.page(10, None, AuditFilter(action="createCheckout")).rows
    assert (entry.actor, entry.subject, entry.organization) == (ada.email, ada.org, ada.org)
