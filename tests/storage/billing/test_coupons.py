from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from storage import (
    CouponClaimed,
    CouponExhausted,
    CouponExpired,
    CouponTaken,
    CouponUnknown,
    LedgerSource,
    NewCoupon,
    Storage,
)
from storage.records.billing import Redemption
from tests.clock import ManualClock
from tests.storage.world import World


@pytest.fixture
def acme(world: World) -> int:
    return world.pipeline.organization_id


def test_a_coupon_credits_each_organization_once(storage: Storage, world: World, acme: int):
    other = world.other_pipeline("Other").organization_id
    storage.ledger.append(acme, 100, LedgerSource.ADMIN_GRANT, None)
    storage.coupons.create(NewCoupon("Spring 26", 50))
    assert storage.coupons.redeem("SPRING26", acme) == Redemption(50, 150)
    assert storage.coupons.redeem("s p r i n g 2 6", other) == Redemption(50, 50)
    with pytest.raises(CouponClaimed):
        storage.coupons.redeem("spring26", acme)
    entry = storage.ledger.page(acme, 1, None).rows[0]
    assert (entry.amount_cents, entry.source) == (50, LedgerSource.COUPON_REDEMPTION)
    assert entry.description == "coupon SPRING26"
    assert [(each.code, each.redemptions) for each in storage.coupons.all()] == [("SPRING26", 2)]
    assert storage.ledger.verify() == []


def test_a_code_is_of_one_coupon_however_it_is_written(storage: Storage):
    made = storage.coupons.create(NewCoupon("spring", 50, note="hello"))
    assert (made.code, made.credit_cents, made.note, made.redemptions) == ("SPRING", 50, "hello", 0)
    with pytest.raises(CouponTaken, match="SPRING already"):
        storage.coupons.create(NewCoupon(" SPRING ", 70))
    assert [each.credit_cents for each in storage.coupons.all()] == [50]


def test_a_coupon_expires_at_its_instant(storage: Storage, clock: ManualClock, world: World, acme: int):
    other = world.other_pipeline("Other").organization_id
    storage.coupons.create(NewCoupon("SPRING", 50, expires_at=clock.now() + timedelta(seconds=1)))
    clock.advance(microseconds=999_999)
    storage.coupons.redeem("SPRING", acme)
    clock.advance(microseconds=1)
    with pytest.raises(CouponExpired):
        storage.coupons.redeem("SPRING", other)
    with pytest.raises(CouponClaimed):
        storage.coupons.redeem("SPRING", acme)
    assert storage.ledger.balance(other) == 0


def test_a_disabled_coupon_has_expired_then_and_not_later(storage: Storage, clock: ManualClock, acme: int):
    storage.coupons.create(NewCoupon("SPRING", 50))
    at = clock.now()
    assert storage.coupons.disable("spring").expires_at == at
    clock.advance(hours=1)
    assert storage.coupons.disable("spring").expires_at == at
    with pytest.raises(CouponExpired):
        storage.coupons.redeem("SPRING", acme)


def test_a_coupon_that_would_expire_later_is_disabled_at_once(storage: Storage, clock: ManualClock):
    storage.coupons.create(NewCoupon("SPRING", 50, expires_at=clock.now() + timedelta(days=1)))
    assert storage.coupons.disable("spring").expires_at == clock.now()


def test_an_unknown_code_grants_nothing(storage: Storage, acme: int):
    with pytest.raises(CouponUnknown):
        storage.coupons.redeem("NONE", acme)
    with pytest.raises(CouponUnknown):
        storage.coupons.disable("NONE")
    assert storage.ledger.page(acme, 1, None).rows == ()


def test_of_many_at_once_only_as_many_as_may_redeem_it(storage: Storage, world: World, clock: ManualClock):
    organizations = [world.other_pipeline(f"Org {number}").organization_id for number in range(8)]
    storage.coupons.create(NewCoupon("SPRING", 50, max_redemptions=3))
    elsewhere = Storage.open(storage.directory, clock)
    outcomes: list[str] = []
    together = threading.Barrier(len(organizations) * 2)

    def redeem(storage: Storage, organization_id: int) -> None:
        together.wait()
        try:
            storage.coupons.redeem("SPRING", organization_id)
            outcomes.append("redeemed")
        except (CouponClaimed, CouponExhausted) as error:
            outcomes.append(type(error).__name__)

    threads = [
        threading.Thread(target=redeem, args=(where, each)) for where in (storage, elsewhere) for each in organizations
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elsewhere.close()
    assert outcomes.count("redeemed") == 3
    assert len(outcomes) == 16
    assert sum(storage.ledger.balance(each) for each in organizations) == 150
    assert [each.redemptions for each in storage.coupons.all()] == [3]
    assert storage.ledger.verify() == []
