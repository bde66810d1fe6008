"""Prices of leases (wire-decisions.md, "Billing"). Pure integer arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.billing.settings import BillingSettings
    from storage.records import Shape

MICRO_CENTS = 1_000_000
"""Micro-cents in a cent."""


def cost_cents(billing: BillingSettings, shape: Shape, seconds: int) -> int:
    """Return the price of a VM of ``shape`` for whole ``seconds``, in whole cents, rounded down."""
    return seconds * price(billing, shape) // MICRO_CENTS


def price(billing: BillingSettings, shape: Shape) -> int:
    """Return the price of a VM of ``shape`` per second, in micro-cents."""
    return shape.cpu * billing.cpu + shape.memory_gb * billing.memory_gb + shape.disk_gb * billing.disk_gb
