"""An organization's money: its balance, its ledger, and the coupons that it redeems."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import ACCOUNT, DELETE, GET, POST, Call, Span, operation, owners_operation
from api.operations.things import BILLING, ThisMembership
from storage import (
    Coupon,
    CouponClaimed,
    CouponExhausted,
    CouponExpired,
    CouponUnknown,
    Discrepancy,
    LedgerEntry,
    LedgerSource,
    NewCoupon,
    Organization,
    Page,
    Role,
    StorageError,
    immutable,
    showing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.fields import CouponCode

_LEDGER = "/ledger/{org}"
_COUPON = "/coupons/{code}"


@immutable
class BalanceResponse:
    """An organization's balance, in cents."""

    balance_cents: int


@immutable
class Transaction:
    """One entry of the ledger; positive amounts are credits, negative ones debits."""

    uuid: str
    amount_cents: int
    source: LedgerSource
    created_at: datetime
    description: str | None

    @classmethod
    def of(cls, entry: LedgerEntry) -> Self:
        """Return the record of a stored entry."""
        return cls(entry.uuid, entry.amount_cents, entry.source, entry.created_at, entry.description)


@operation("getBillingBalance", GET, f"{BILLING}/balance/{{org}}", "The balance.")
def get_balance(call: Call, membership: ThisMembership) -> BalanceResponse:
    """Get the organization's balance."""
    return BalanceResponse(call.storage.ledger.balance(membership.organization.id))


@operation("listBillingTransactions", GET, f"{BILLING}/transactions/{{org}}", "A page of entries.")
def list_transactions(call: Call, membership: ThisMembership, span: Span) -> Page[Transaction]:
    """List the organization's ledger entries, newest first."""
    page = call.storage.ledger.page(membership.organization.id, span.limit, span.after)
    return Page(tuple(map(Transaction.of, page.rows)), page.next_key)


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
    tag="coupons",
    callers=ACCOUNT,  # guessing codes is limited like guessing credentials
)
def redeem_coupon(call: Call, membership: ThisMembership, body: RedeemCouponRequest) -> RedeemCouponResponse:
    """Redeem a coupon for the organization, once; needs the role admin."""
    try:
        redeemed = call.storage.coupons.redeem(body.code, membership.organization.id)
    except tuple(_REFUSALS) as error:
        raise ApiError(_REFUSALS[type(error)], str(error)) from None
    return RedeemCouponResponse(redeemed.credit_cents, redeemed.balance_cents)


@immutable
class CreditRequest:
    """The body of `grant_credit` and `refund_credit`; members read the note in their transactions."""

    amount_cents: int
    note: str | None = None


@immutable
class Credited:
    """An entry of credit, and the balance with it."""

    uuid: str
    organization: str
    amount_cents: int
    balance_cents: int


@immutable
class LedgerLine:
    """An entry of the ledger, and the balance after it."""

    uuid: str
    created_at: datetime
    source: LedgerSource
    amount_cents: int
    balance_cents: int
    description: str | None


@owners_operation("grantCredit", POST, f"{_LEDGER}/grants")
def grant_credit(call: Call, membership: ThisMembership, body: CreditRequest) -> Credited:
    """Give an organization credit, which its jobs spend."""
    return _credited(call, membership.organization, LedgerSource.ADMIN_GRANT, body)


@owners_operation("refundCredit", POST, f"{_LEDGER}/refunds")
def refund_credit(call: Call, membership: ThisMembership, body: CreditRequest) -> Credited:
    """Refund a part of its jobs' cost to an organization. The debits stay as they are."""
    return _credited(call, membership.organization, LedgerSource.REFUND, body)


def _credited(call: Call, organization: Organization, source: LedgerSource, body: CreditRequest) -> Credited:
    ledger = call.storage.ledger
    entry = ledger.append(organization.id, body.amount_cents, source, body.note)
    return Credited(entry.uuid, organization.slug, entry.amount_cents, ledger.balance(organization.id))


@owners_operation("exportLedger", GET, _LEDGER)
def export_ledger(call: Call, membership: ThisMembership) -> Annotated[list[LedgerLine], "All entries."]:
    """List every entry of an organization, oldest first, with the balance after it."""
    balance, lines = 0, []
    for entry in call.storage.ledger.entries(membership.organization.id):
        balance += entry.amount_cents
        lines.append(showing(LedgerLine, entry, balance_cents=balance))
    return lines


@owners_operation("verifyLedger", GET, "/ledger")
def verify_ledger(call: Call) -> Annotated[list[Discrepancy], "What is wrong."]:
    """Compare balances with their entries, debits with what VMs cost, and top-ups with payments."""
    return call.storage.ledger.verify()


@owners_operation("createCoupon", POST, _COUPON)
def create_coupon(call: Call, body: NewCoupon) -> Coupon:
    """Create a coupon, which each organization can redeem once. Raises CouponTaken."""
    return call.storage.coupons.create(body)


@owners_operation("listCoupons", GET, "/coupons")
def list_coupons(call: Call) -> Annotated[list[Coupon], "All coupons."]:
    """List the coupons, oldest first, with the number of redemptions of each."""
    return call.storage.coupons.all()


@owners_operation("disableCoupon", DELETE, _COUPON)
def disable_coupon(call: Call, code: str) -> Coupon:
    """Make a coupon expire now. Credit that was redeemed stays."""
    try:
        return call.storage.coupons.disable(code)
    except CouponUnknown:
        raise ApiError.not_found("coupon", code) from None
