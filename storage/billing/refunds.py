"""Refunds of payments at the provider."""

from __future__ import annotations

import peewee

from storage.models import PaymentRefundRow, PaymentRow, PaymentTotalRow


def refunded() -> peewee.Node:
    """Return the cents of a payment that went back, for a query of payments.

    The provider tells single refunds and totals. The larger of both is what was refunded; what of it failed came back.
    """
    known = PaymentRefundRow.select(peewee.fn.COALESCE(peewee.fn.SUM(PaymentRefundRow.amount_cents), 0)).where(
        PaymentRefundRow.intent == PaymentRow.intent
    )
    total = PaymentTotalRow.select(PaymentTotalRow.refunded_cents).where(PaymentTotalRow.intent == PaymentRow.intent)
    largest = peewee.fn.MAX(known, peewee.fn.COALESCE(total, 0))
    return peewee.Expression(largest, "-", known.where(PaymentRefundRow.failed == 1))
