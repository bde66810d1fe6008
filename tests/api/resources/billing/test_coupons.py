from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from falcon import testing

from api import HttpSettings, Parts, create_app
from api.settings import RateLimitSettings
from storage import NewCoupon, Role
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine


def redeem(account: Account, code: object, org: str | None = None) -> testing.Result:
    return account.client.simulate_post(f"/api/v0/billing/coupon/redeem/{org or account.org}", json={"code": code})


def test_a_coupon_is_credit_and_an_entry_of_the_ledger(world: World, ada: Account):
    world.storage.coupons.create(NewCoupon("WELCOME-50", 50, note="for the first builds"))
    answered = redeem(ada, " welcome -50\n")

    assert (answered.status_code, answered.json) == (200, {"credit_cents": 50, "balance_cents": 1050})
    entry = ada.client.simulate_get(f"/api/v0/billing/transactions/{ada.org}").json["data"][0]
    assert (entry["amount_cents"], entry["source"]) == (50, "coupon_redemption")
    assert entry["description"] == "coupon WELCOME-50: for the first builds"


@pytest.mark.parametrize(("role", "status"), [(Role.MEMBER, 403), (Role.ADMIN, 200), (Role.OWNER, 200)])
def test_admins_and_owners_redeem(world: World, ada: Account, bob: Account, role: Role, status: int):
    world.storage.coupons.create(NewCoupon("FIVE", 5))
    bob.join(ada, role)
    answered = redeem(bob, "FIVE", ada.org)

    assert answered.status_code == status
    if status == 403:
        assert answered.json["error"]["code"] == "insufficient_org_role"
        assert world.storage.ledger.balance(ada.org_id) == 1000


def test_outsiders_and_anonymous_callers_redeem_nothing(world: World, ada: Account, bob: Account):
    world.storage.coupons.create(NewCoupon("FIVE", 5))

    assert redeem(bob, "FIVE", ada.org).json["error"]["code"] == "organization_not_found"
    assert world.anonymous.simulate_post(f"/api/v0/billing/coupon/redeem/{ada.org}").status_code == 401
    assert world.storage.ledger.balance(ada.org_id) == 1000


def test_each_refusal_has_its_code(world: World, ada: Account, bob: Account):
    coupons = world.storage.coupons
    coupons.create(NewCoupon("ONCE", 5, max_redemptions=1))
    coupons.create(NewCoupon("EARLY", 5, expires_at=world.clock.now() + timedelta(seconds=1)))
    coupons.create(NewCoupon("GONE", 5))
    coupons.disable("gone")
    assert redeem(ada, "ONCE").status_code == 200
    world.clock.advance(1)
    refused = [redeem(bob, code) for code in ("NONE", "EARLY", "GONE", "ONCE")] + [redeem(ada, "ONCE")]

    assert [(each.status_code, each.json["error"]["code"]) for each in refused] == [
        (404, "coupon_not_found"),
        (422, "coupon_expired"),
        (422, "coupon_expired"),
        (422, "coupon_exhausted"),
        (409, "coupon_already_claimed"),
    ]
    assert world.storage.ledger.balance(bob.org_id) == 1000


def test_of_twenty_at_once_one_redeems_for_the_organization(world: World, ada: Account):
    world.storage.coupons.create(NewCoupon("FIVE", 5))
    with ThreadPoolExecutor(20) as threads:
        statuses = list(threads.map(lambda _: redeem(ada, "FIVE").status_code, range(20)))
    assert sorted(statuses) == [200] + [409] * 19
    assert world.storage.ledger.balance(ada.org_id) == 1005


@pytest.mark.parametrize("code", [None, 7, "", "  ", "x" * 256, "A\0B", ["FIVE"]])
def test_an_invalid_code_is_refused(ada: Account, code: object):
    answered = redeem(ada, code)

    assert answered.json["error"]["code"] == "invalid_body"
    assert answered.json["error"]["message"].startswith("code: expected")


def test_guessing_codes_is_limited(world: World, clock: ManualClock):
    limits = RateLimitSettings(account_per_minute=3)
    world.app = create_app(
        world.storage, FakeEngine(world.storage, clock), HttpSettings(), Parts(rate_limits=limits, clock=clock)
    )
    eve = world.sign_up("eve@example.org")
    answered = [redeem(eve, f"GUESS{number}") for number in range(4)]

    assert [each.status_code for each in answered] == [404, 404, 404, 429]
    assert [each.headers["RateLimit-Remaining"] for each in answered] == ["2", "1", "0", "0"]
