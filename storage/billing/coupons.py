"""Coupons: credit that each organization may claim once by a code (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.database.instants import to_micros
from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot, written
from storage.errors import CouponClaimed, CouponExhausted, CouponExpired, CouponTaken, CouponUnknown
from storage.models import CouponRow, RedemptionRow
from storage.records import Coupon, LedgerSource, NewCoupon, Redemption

if TYPE_CHECKING:
    from storage.billing.ledger import Ledger
    from storage.database.connection import Database

_REDEMPTIONS = RedemptionRow.select(peewee.fn.COUNT(peewee.SQL("*"))).where(RedemptionRow.coupon == CouponRow.id)
_COUPON = Columns.of(Coupon, CouponRow, redemptions=(_REDEMPTIONS, int))
_NEW: Slots[NewCoupon] = Slots(NewCoupon, CouponRow)


class Coupons:
    """Coupons and their redemptions. Codes ignore case and spaces. Safe in any thread."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger
        coupons = CouponRow.select(*_COUPON.selected)
        self._all = Query(database, coupons.order_by(CouponRow.id), _COUPON)
        self._by_code = Query(database, coupons.where(CouponRow.code == slot("code")), _COUPON)
        self._insert = Write(database, insert_into(CouponRow))
        self._end = Write(
            database, CouponRow.update({CouponRow.expires_at: slot("now")}).where(CouponRow.id == slot("id"))
        )
        self._claim = Query(
            database,
            RedemptionRow.select(RedemptionRow.ledger_entry).where(
                RedemptionRow.coupon == slot("coupon_id"), RedemptionRow.organization == slot("organization_id")
            ),
            first,
        )
        self._redeem = Write(database, insert_into(RedemptionRow))

    def create(self, new: NewCoupon) -> Coupon:
        """Create a coupon. Raises CouponTaken."""
        code = _plain(new.code)
        with self._database.write():
            if self._by_code.one(code=code) is not None:
                raise CouponTaken(f"there is a coupon {code} already")
            self._insert.run(**_NEW(new) | {"code": code, "created_at": self._database.now()})
            return written(self._by_code.one(code=code))

    def all(self) -> list[Coupon]:
        """Return every coupon, oldest first."""
        return self._all.all()

    def disable(self, code: str) -> Coupon:
        """Expire a coupon now, unless it has expired already. Raises CouponUnknown."""
        with self._database.write():
            coupon = self._named(code)
            if not self._expired(coupon):
                self._end.run(id=coupon.id, now=self._database.now())
            return self._named(code)

    def redeem(self, code: str, organization_id: int) -> Redemption:
        """Credit an organization with a coupon.

        Raises CouponUnknown, CouponClaimed, CouponExpired or CouponExhausted. CouponClaimed has precedence: an
        organization that redeemed the coupon gets it even if the coupon has expired since.
        """
        with self._database.write():
            coupon = self._named(code)
            if self._claim.one(coupon_id=coupon.id, organization_id=organization_id) is not None:
                raise CouponClaimed("the organization has redeemed this coupon already")
            if self._expired(coupon):
                raise CouponExpired("the coupon has expired")
            if coupon.max_redemptions is not None and coupon.redemptions >= coupon.max_redemptions:
                raise CouponExhausted("the coupon has been redeemed as often as it allows")
            described = f"coupon {coupon.code}" if coupon.note is None else f"coupon {coupon.code}: {coupon.note}"
            source = LedgerSource.COUPON_REDEMPTION
            entry = self._ledger.append(organization_id, coupon.credit_cents, source, described)
            self._redeem.run(coupon_id=coupon.id, organization_id=organization_id, ledger_entry_id=entry.id)
            return Redemption(coupon.credit_cents, self._ledger.balance(organization_id))

    def _named(self, code: str) -> Coupon:
        coupon = self._by_code.one(code=_plain(code))
        if coupon is None:
            raise CouponUnknown("there is no coupon with this code")
        return coupon

    def _expired(self, coupon: Coupon) -> bool:
        return coupon.expires_at is not None and to_micros(coupon.expires_at) <= self._database.now()


def _plain(code: str) -> str:
    return "".join(code.split()).upper()
