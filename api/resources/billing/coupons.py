"""Coupons: codes from the operator that give credit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, RequiredText
from api.openapi.operations import Answer, operation
from storage import CouponClaimed, CouponExhausted, CouponExpired, CouponUnknown, JsonModel, Role, Storage

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits

__all__ = ["CouponsResource", "RedeemCouponRequest", "RedeemCouponResponse"]

_REFUSALS = {
    CouponUnknown: "coupon_not_found",
    CouponClaimed: "coupon_already_claimed",
    CouponExpired: "coupon_expired",
    CouponExhausted: "coupon_exhausted",
}


class RedeemCouponRequest(RequestBody):
    """The body of ``POST /api/v0/billing/coupon/redeem/{org}``; case and spaces of the code are ignored."""

    code: Annotated[RequiredText, Field(examples=["WELCOME-2026"])]


class RedeemCouponResponse(JsonModel):
    """The coupon's credit and the organization's balance after it, in cents."""

    credit_cents: int
    balance_cents: int


class CouponsResource:
    """``/api/v0/billing/coupon/redeem/{org}``. Guessing codes is rate-limited like guessing credentials."""

    def __init__(self, storage: Storage, access: Access, limits: RateLimits) -> None:
        self._coupons = storage.coupons
        self._access = access
        self._limits = limits

    @operation(
        "redeemCoupon",
        Answer(200, "The credit and the balance.", RedeemCouponResponse),
        body=RedeemCouponRequest,
        errors=("organization_not_found", "insufficient_org_role", *_REFUSALS.values()),
    )
    def on_post_redeem(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Redeem a coupon for the organization, once; needs the role admin."""
        self._limits.limit_address(req, resp)
        member = self._access.member(req, org, Role.ADMIN)
        self._limits.limit_account(member.caller, resp)
        body = read_body(req, RedeemCouponRequest)
        try:
            redeemed = self._coupons.redeem(body.code, member.organization.id)
        except tuple(_REFUSALS) as error:
            raise ApiError(_REFUSALS[type(error)], str(error)) from None
        answer(resp, RedeemCouponResponse(credit_cents=redeemed.credit_cents, balance_cents=redeemed.balance_cents))
