"""Payments at the provider, their refunds, and the provider's events."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.row import Row
from storage.records import Payment, PaymentEvent, RefundReport, RefundTotal

__all__ = ["PaymentEventRow", "PaymentRefundRow", "PaymentRow", "PaymentTotalRow"]


class PaymentRow(Row, table="payments", record=Payment):
    """A payment session of an organization."""

    organization = peewee.ForeignKeyField(OrganizationRow)


class PaymentRefundRow(Row, table="payment_refunds", record=RefundReport):
    """A refund at the provider."""


class PaymentTotalRow(Row, table="payment_totals", record=RefundTotal):
    """The most that the provider said to be refunded of a payment."""


class PaymentEventRow(Row, table="payment_events", record=PaymentEvent):
    """An event that the provider sent."""
