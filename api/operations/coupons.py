"""Coupons: codes from the operator that give credit."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.operations.operation import POST, Call, operation
from api.operations.things import BILLING, ThisMembership
from storage import CouponClaimed, CouponExhausted, CouponExpired, CouponUnknown, Role, StorageError, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.fields import CouponCode

_REFUSALS: Mapping[type[StorageError], str] = MappingProxyType(
    {
        CouponUnknown: "coupon_not_found",
        CouponClaimed: "coupon_already_claimed",
        CouponExpired: "coupon_expired",
        CouponExhausted: "coupon_exhausted",
    }
)


@immutable
class RedeemCouponRequest:
    """The body of ``POST /api/v0/billing/coupon/redeem/{org}``; case and spaces of the code are ignored."""

    code: CouponCode


@immutable
class RedeemCouponResponse:
    """The coupon's credit and the organization's balance after it, in cents."""

    credit_cents: int
    balance_cents: int


@operation(
    "redeemCoupon",
    POST,
    f"{BILLING}/coupon/redeem/{{org}}",
    "The credit and the balance.",
    role=Role.ADMIN,
    errors=tuple(_REFUSALS.values()),
    limited=True,  # guessing codes is limited like guessing credentials
)
def redeem_coupon(call: Call, membership: ThisMembership, body: RedeemCouponRequest) -> RedeemCouponResponse:
    """Redeem a coupon for the organization, once; needs the role admin."""
    try:
        redeemed = call.storage.coupons.redeem(body.code, membership.organization.id)
    except tuple(_REFUSALS) as error:
        raise ApiError(_REFUSALS[type(error)], str(error)) from None
    return RedeemCouponResponse(redeemed.credit_cents, redeemed.balance_cents)
