"""Credit that organizations claim by a code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Coupon", "NewCoupon", "Redemption"]


@dataclass(frozen=True, slots=True)
class NewCoupon:
    """A coupon to create. ``code`` may have any case and spaces; ``note`` goes into redeemers' ledgers.

    Without ``max_redemptions`` any number of organizations may redeem it, without ``expires_at`` at any time.
    """

    code: str
    credit_cents: int
    max_redemptions: int | None = None
    expires_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Coupon:
    """A coupon and the number of its redemptions; it cannot be redeemed from ``expires_at`` on."""

    id: int
    code: str
    credit_cents: int
    max_redemptions: int | None
    expires_at: datetime | None
    note: str | None
    created_at: datetime
    redemptions: int


@dataclass(frozen=True, slots=True)
class Redemption:
    """The credit of a redeemed coupon, and the organization's new balance, in cents."""

    credit_cents: int
    balance_cents: int
