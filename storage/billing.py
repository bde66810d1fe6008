"""What a lease costs (wire-decisions.md, "Billing"). Pure arithmetic in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.records import Shape

__all__ = ["MICRO_CENTS", "BillingSettings", "cost_cents", "price"]

MICRO_CENTS = 1_000_000
"""How many make a cent."""


@dataclass(frozen=True, slots=True)
class BillingSettings:
    """Section ``[billing]``: prices in micro-cents a second, for one vCPU, one GB of memory and one GB of disk.

    None is below 0. All at 0, builds are free. Every lease is debited, so that a team sees what it uses.
    ``require_credit`` refuses new builds to an organization whose balance is not above 0; otherwise balances may go
    below 0 and stop nobody.
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
        """Whether nothing costs anything."""
        return self.cpu == self.memory_gb == self.disk_gb == 0


def cost_cents(billing: BillingSettings, shape: Shape, seconds: int) -> int:
    """Return the whole cents, rounded down, that a VM of ``shape`` costs for whole ``seconds``."""
    return seconds * price(billing, shape) // MICRO_CENTS


def price(billing: BillingSettings, shape: Shape) -> int:
    """Return what a VM of ``shape`` costs a second, in micro-cents."""
    return shape.cpu * billing.cpu + shape.memory_gb * billing.memory_gb + shape.disk_gb * billing.disk_gb
