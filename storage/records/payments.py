"""Top-ups of a balance: payments, what the payment provider says of them, and coupons."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class PaymentState(StrEnum):
    """The state of a payment session at the provider."""

    OPEN = "open"
    PROCESSING = "processing"
    PAID = "paid"
    FAILED = "failed"
    EXPIRED = "expired"

    def follows(self, other: PaymentState) -> bool:
        """Tell whether a session in the other state may come into this one; events come in any order."""
        return _RANKS[self] > _RANKS[other]


_RANKS = {
    PaymentState.OPEN: 0,
    PaymentState.PROCESSING: 1,
    PaymentState.FAILED: 2,
    PaymentState.EXPIRED: 2,
    PaymentState.PAID: 3,
}


@immutable
class Payment:
    """A payment session; ``intent`` is the provider's name of the payment, which refunds refer to."""

    id: int
    session: str
    organization_id: int
    state: PaymentState
    amount_cents: int
    intent: str | None
    created_at: datetime


@immutable
class SessionReport:
    """A payment session as an event reports it, and the organization that it is for."""

    session: str
    organization_uuid: str
    state: PaymentState
    amount_cents: int
    intent: str | None


@immutable
class RefundReport:
    """One refund of a payment, as an event reports it."""

    refund: str
    intent: str
    amount_cents: int
    failed: bool


@immutable
class RefundTotal:
    """The sum that was refunded of a payment, as an event reports it."""

    intent: str
    refunded_cents: int


@immutable
class NewPaymentEvent:
    """An event of the provider.

    ``payload`` is what is kept of it. Without a ``report`` it changes nothing; ``reason`` says why if it could have.
    """

    event: str
    type: str
    payload: Mapping[str, object]
    report: SessionReport | RefundReport | RefundTotal | None = None
    reason: str | None = None


class EventEffect(StrEnum):
    """The effect of an event: ``noted`` ones change no balance, ``ignored`` ones are not of this service."""

    CREDITED = "credited"
    REFUNDED = "refunded"
    NOTED = "noted"
    IGNORED = "ignored"


@immutable
class EventOutcome:
    """The effect of an event, its organization's slug, and what the owner should know of it.

    A ``repeated`` one was known already; its effect is that of the first time.
    """

    effect: EventEffect
    organization: str | None = None
    reason: str | None = None
    repeated: bool = False


@immutable
class PaymentEvent:
    """An event as it is kept."""

    id: int
    event: str
    type: str
    payload: Mapping[str, object]
    effect: EventEffect
    received_at: datetime


@immutable
class NewCoupon:
    """A coupon to create. ``code`` may have any case and spaces; ``note`` goes into redeemers' ledgers.

    Without ``max_redemptions`` any number of organizations may redeem it, without ``expires_at`` at any time.
    """

    code: str
    credit_cents: int
    max_redemptions: int | None = None
    expires_at: datetime | None = None
    note: str | None = None


@immutable
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


@immutable
class Redemption:
    """The credit of a redeemed coupon, and the organization's new balance, in cents."""

    credit_cents: int
    balance_cents: int
