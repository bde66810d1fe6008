"""Money in, with the real daemon: checkout, events, refunds, and what verification says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from tests.e2e.daemon import Client, Daemon
from tests.payment_provider import (
    SECRET_KEY,
    WEBHOOK_SECRET,
    LocalProvider,
    charge,
    event,
    refund,
    signature,
)
from tests.state import run_sql


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.serving() as provider:
        yield provider


@pytest.fixture(scope="module")
def settings(provider: LocalProvider) -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_PAYMENTS_SECRET_KEY": SECRET_KEY,
        "CI_DAEMON_PAYMENTS_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "CI_DAEMON_PAYMENTS_API_BASE": provider.url,
    }


@pytest.fixture
def client(daemon: Daemon) -> Client:
    return Client.create(daemon, "payer@example.org", cents=0)


def test_a_payment_from_checkout_to_refund(daemon: Daemon, client: Client, provider: LocalProvider):
    begun = client.request("POST", f"/api/v0/billing/checkout/{client.org}", json={"amount_cents": 2500})
    assert begun.status_code == 200, begun.text
    session = begun.json()["checkout_url"].removeprefix(f"{provider.url}/pay/")
    assert balance(client) == 0
    assert httpx.get(provider.asked[0].form["success_url"]).status_code == 200

    paid = event("evt_1", "checkout.session.completed", provider.paid(session))
    forged = deliver(daemon, paid.replace(b"2500", b"9500"), signature(paid))
    assert (forged.status_code, forged.json()["error"]["code"]) == (400, "webhook_signature_invalid")
    with ThreadPoolExecutor(20) as at_once:
        answered = list(at_once.map(lambda _: deliver(daemon, paid), range(20)))
    assert {each.status_code for each in answered} == {200}
    assert Counter(each.json()["repeated"] for each in answered) == {False: 1, True: 19}
    assert balance(client) == 2500

    assert deliver(daemon, event("evt_2", "refund.created", refund("re_1", 700, session))).status_code == 200
    assert deliver(daemon, event("evt_3", "charge.refunded", charge(700, session))).status_code == 200
    assert balance(client) == 1800
    exported = daemon.json("ledger", "export", client.org)
    assert [(each["source"], each["amount_cents"]) for each in exported] == [("payment_topup", 2500), ("refund", -700)]
    assert session in exported[0]["description"]
    assert daemon.command("ledger", "verify").returncode == 0
    audit = daemon.json("audit", "--org", client.org)
    assert {(each["actor"], each["action"]) for each in audit} >= {
        (client.email, "createCheckout"),
        ("payment provider", "receivePaymentEvent"),
    }

    daemon.stop()
    run_sql(daemon.state, "UPDATE payments SET amount_cents = 3000")
    failed = daemon.command("ledger", "verify", check=False)
    run_sql(daemon.state, "UPDATE payments SET amount_cents = 2500")
    assert failed.returncode == 1
    assert "is credited 2500 cents" in failed.stdout
    daemon.start()
    assert deliver(daemon, paid).json() == {"id": "evt_1", "effect": "credited", "repeated": True}
    assert (balance(client), daemon.command("ledger", "verify").returncode) == (1800, 0)


def deliver(daemon: Daemon, body: bytes, signed: str | None = None) -> httpx.Response:
    """Deliver an event as the provider does; return the answer."""
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Stripe-Signature": signed or signature(body),
        "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
    }
    with closing(httpx.Client(timeout=30)) as http:
        return http.post(f"{daemon.url}/api/v0/billing/webhook", content=body, headers=headers)


def balance(client: Client) -> int:
    cents: int = client.get(f"/api/v0/billing/balance/{client.org}")["balance_cents"]
    return cents
