"""The ledger, payments, refunds and coupons."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import JobRow
from storage.models.row import Row
from storage.records.billing import Coupon, LedgerEntry, Payment, PaymentEvent, RefundReport, RefundTotal


class PaymentRow(Row, table="payments", record=Payment):
    """A payment session of an organization."""

    organization = peewee.ForeignKeyField(OrganizationRow)


class LedgerRow(Row, table="ledger_entries", record=LedgerEntry):
    """One entry of the ledger; never changed, never deleted."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    job = peewee.ForeignKeyField(JobRow, null=True)
    payment = peewee.ForeignKeyField(PaymentRow, null=True)


class RerunDebitRow(Row, table="rerun_debits"):
    """The debit of a job's run after the first one."""

    entry = peewee.ForeignKeyField(LedgerRow, primary_key=True)
    job = peewee.ForeignKeyField(JobRow)
    attempts_before = peewee.IntegerField()


class PaymentRefundRow(Row, table="payment_refunds", record=RefundReport):
    """A refund at the provider."""


class PaymentTotalRow(Row, table="payment_totals", record=RefundTotal):
    """The most that the provider said to be refunded of a payment."""


class PaymentEventRow(Row, table="payment_events", record=PaymentEvent):
    """An event that the provider sent."""


class CouponRow(Row, table="coupons", record=Coupon, joined=("redemptions",)):
    """Credit that organizations may claim by a code."""


class RedemptionRow(Row, table="coupon_redemptions", key=("coupon", "organization")):
    """An organization's redemption of a coupon, and its ledger entry."""

    coupon = peewee.ForeignKeyField(CouponRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    ledger_entry = peewee.ForeignKeyField(LedgerRow)
