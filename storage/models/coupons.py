"""Coupons and their redemptions."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.leases import LedgerRow
from storage.models.row import Row
from storage.records import Coupon

__all__ = ["CouponRow", "RedemptionRow"]


class CouponRow(Row, table="coupons", record=Coupon, joined=("redemptions",)):
    """Credit that organizations may claim by a code."""


class RedemptionRow(Row, table="coupon_redemptions", key=("coupon", "organization")):
    """An organization's redemption of a coupon, and its ledger entry."""

    coupon = peewee.ForeignKeyField(CouponRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    ledger_entry = peewee.ForeignKeyField(LedgerRow)
