"""Prices of leases: their settings and their arithmetic (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.data_classes import immutable
from storage.settings import setting

if TYPE_CHECKING:
    from storage.records.jobs import Shape


@immutable
class BillingSettings:
    """Section ``[billing]``: prices per second, in micro-cents, of VMs and of kept disks.

    Every lease is debited, so that a team sees what it uses. If all prices of VMs are 0, all is free.
    """

    cpu: int = setting(10_000, "The price of one vCPU.", at_least=0)
    memory_gb: int = setting(5_000, "The price of one GB of memory.", at_least=0)
    disk_gb: int = setting(100, "The price of one GB of disk.", at_least=0)
    kept_disk_gb: int = setting(1, "The price of one GB of a kept disk, without the disk below it.", at_least=0)
    require_credit: bool = setting(
        default=False,
        description="Let an organization create builds only while its balance is above 0; without it, a negative"
        " balance has no effect.",
    )

    @property
    def free(self) -> bool:
        """True if all prices of VMs are 0."""
        return self.cpu == self.memory_gb == self.disk_gb == 0


MICRO_CENTS = 1_000_000
"""Micro-cents in a cent."""


def cost_cents(billing: BillingSettings, shape: Shape, seconds: int) -> int:
    """Return the price of a VM of ``shape`` for whole ``seconds``, in whole cents, rounded down."""
    return seconds * price(billing, shape) // MICRO_CENTS


def price(billing: BillingSettings, shape: Shape) -> int:
    """Return the price of a VM of ``shape`` per second, in micro-cents."""
    return shape.cpu * billing.cpu + shape.memory_gb * billing.memory_gb + shape.disk_gb * billing.disk_gb
