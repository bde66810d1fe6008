"""Prices of leases (wire-decisions.md, "Billing"). Pure integer arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.records import Shape

__all__ = ["MICRO_CENTS", "BillingSettings", "cost_cents", "price"]

MICRO_CENTS = 1_000_000
"""Micro-cents in a cent."""


@dataclass(frozen=True, slots=True)
class BillingSettings:
    """Section ``[billing]``: prices per second, in micro-cents.

    They are for one vCPU, one GB of memory and one GB of disk, each at least 0. If all are 0, builds are free. Every
    lease is debited, so that a team sees what it uses. With ``require_credit`` an organization whose balance is not
    above 0 cannot create builds; without it a negative balance has no effect.
    """

    cpu: int = 10_000
    memory_gb: int = 5_000
    disk_gb: int = 100
    require_credit: bool = False

    def __post_init__(self) -> None:
        for name in ("cpu", "memory_gb", "disk_gb"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0")

    @property
    def free(self) -> bool:
        """True if all prices are 0."""
        return self.cpu == self.memory_gb == self.disk_gb == 0


def cost_cents(billing: BillingSettings, shape: Shape, seconds: int) -> int:
    """Return the price of a VM of ``shape`` for whole ``seconds``, in whole cents, rounded down."""
    return seconds * price(billing, shape) // MICRO_CENTS


def price(billing: BillingSettings, shape: Shape) -> int:
    """Return the price of a VM of ``shape`` per second, in micro-cents."""
    return shape.cpu * billing.cpu + shape.memory_gb * billing.memory_gb + shape.disk_gb * billing.disk_gb
