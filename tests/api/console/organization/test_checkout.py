"""The form that begins a payment, and the pages at which it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api import HttpSettings, RateLimitSettings
from storage import Role, Storage
from tests.api.console.browser import Browser
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.payment_provider import Fault, LocalProvider

BILLING = "/ada-example-org/billing"
FORM = "ada-example-org/billing/checkout"


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.serving() as provider:
        yield provider


@pytest.fixture
def world(storage: Storage, clock: ManualClock, settings: HttpSettings, provider: LocalProvider) -> World:
    unlimited = RateLimitSettings(10**6, 10**6, 10**6)
    return World.create(storage, clock, settings, unlimited, provider.settings(timeout=0.5))


@pytest.mark.parametrize(("amount", "cents"), [("25", 2500), (" 1.05 ", 105), ("99,90", 9990)])
def test_a_payment_goes_on_by_a_link(ada: Account, provider: LocalProvider, amount: str, cents: int):
    shown = Browser.of(ada).send(BILLING, FORM, amount=amount)
    assert shown.status_code == 200
    # A redirect from a form would be to another host, which the policy of the page refuses.
    assert f'href="{provider.url}/pay/cs_test_1"' in shown.text
    payment = ada.world.storage.payments.by_session("cs_test_1")
    assert payment is not None
    assert payment.amount_cents == cents


@pytest.mark.parametrize("amount", ["", "x", "1.5", "-3", "0.99", "10000.01", "٣"])
def test_a_wrong_amount_is_refused_on_a_page(ada: Account, provider: LocalProvider, amount: str):
    refused = Browser.of(ada).send(BILLING, FORM, amount=amount)
    assert (refused.status_code, "<h1>" in refused.text) == (422, True)
    assert provider.asked == []


def test_a_provider_that_is_away_is_said_on_a_page(ada: Account, provider: LocalProvider):
    provider.faults = [Fault(500), Fault(500)]
    refused = Browser.of(ada).send(BILLING, FORM, amount="25")
    assert (refused.status_code, "nothing was paid" in refused.text) == (502, True)


def test_only_admins_pay(ada: Account, bob: Account):
    bob.join(ada, Role.MEMBER)
    browser = Browser.of(bob)
    assert "Amount in USD" not in browser.get(BILLING).text
    token = browser.fields("/account", "account/profile")["form_token"]
    assert browser.post(f"/{FORM}", {"form_token": token, "amount": "25"}).status_code == 403


def test_the_ends_of_a_payment_are_pages_for_anybody(world: World, ada: Account):
    for page, words in (("paid", "<h1>Thank you</h1>"), ("canceled", "<h1>Not paid</h1>")):
        shown = Browser(world).get(f"/billing/{page}", params={"session_id": "<script>"})
        assert (shown.status_code, words in shown.text, "<script>" in shown.text) == (200, True, False)
        assert ">Account</a>" in Browser.of(ada).get(f"/billing/{page}").text
