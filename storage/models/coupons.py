# ruff: noqa: D106 - a model's Meta only names its table
"""Coupons and their redemptions."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.fields import InstantField
from storage.models.leases import LedgerRow

__all__ = ["CouponRow", "RedemptionRow"]


class CouponRow(peewee.Model):
    """Credit that organizations may claim by a code."""

    id = peewee.AutoField()
    code = peewee.TextField()
    credit_cents = peewee.IntegerField()
    max_redemptions = peewee.IntegerField(null=True)
    expires_at = InstantField(null=True)
    note = peewee.TextField(null=True)
    created_at = InstantField()

    class Meta:
        table_name = "coupons"


class RedemptionRow(peewee.Model):
    """An organization's redemption of a coupon, and its ledger entry."""

    coupon = peewee.ForeignKeyField(CouponRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    ledger_entry = peewee.ForeignKeyField(LedgerRow)

    class Meta:
        table_name = "coupon_redemptions"
        primary_key = peewee.CompositeKey("coupon", "organization")
