"""Credit that organizations claim by a code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Coupon", "NewCoupon", "Redemption"]


@dataclass(frozen=True, slots=True)
class NewCoupon:
    """What the owner says of a coupon; the code is as people may write it, ``note`` is for the redeemers' ledgers.

    Without ``max_redemptions`` any number of organizations may redeem it, without ``expires_at`` at any time.
    """

    code: str
    credit_cents: int
    max_redemptions: int | None = None
    expires_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Coupon:
    """A coupon and how many organizations have redeemed it; from ``expires_at`` on none may."""

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
    """What a redeemed coupon gave, and what the organization has since, in cents."""

    credit_cents: int
    balance_cents: int
