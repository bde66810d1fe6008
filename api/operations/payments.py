"""Payments: checkout at the payment provider (wire-decisions.md, "Billing")."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from api.body import Submission  # noqa: TC001 - a parameter of operations
from api.errors.catalog import ApiError
from api.operations.operation import ACCOUNT, KEY_ERRORS, POST, Call, operation
from api.operations.things import BILLING, ThisMembership, ThisUser
from api.payments.provider import KeyReused, PaymentProvider, ProviderFailed
from storage import Role, immutable

if TYPE_CHECKING:
    from api.fields import PaidCents
    from storage import Organization, User

_log = logging.getLogger(__name__)

_LEAST, _MOST = 100, 1_000_000


@immutable
class CheckoutRequest:
    """The body of ``POST /api/v0/billing/checkout/{org}``."""

    amount_cents: PaidCents


@immutable
class CheckoutResponse:
    """The provider's page on which the organization pays."""

    checkout_url: str


@operation(
    "createCheckout",
    POST,
    f"{BILLING}/checkout/{{org}}",
    "The page on which to pay.",
    role=Role.ADMIN,
    errors=("invalid_amount", "billing_unconfigured", "billing_provider_error", *KEY_ERRORS),
    callers=ACCOUNT,
)
def create_checkout(
    call: Call, user: ThisUser, membership: ThisMembership, submission: Submission[CheckoutRequest]
) -> CheckoutResponse:
    """Begin a payment for the organization; needs the role admin.

    The balance changes when the payment provider confirms the payment.
    """
    cents, organization = submission.body().amount_cents, membership.organization
    if not _LEAST <= cents <= _MOST:
        raise ApiError("invalid_amount", f"amount_cents: expected {_LEAST} to {_MOST} cents, got {cents}")
    provider = configured(call.later.payments)
    try:
        begun = provider.begin(organization, cents, _provider_key(submission.key, user, organization))
    except KeyReused:
        raise ApiError("idempotency_conflict", "this Idempotency-Key belongs to another checkout") from None
    except ProviderFailed as error:
        _log.warning("no payment for %s was begun: %s", organization.slug, error)
        raise ApiError("billing_provider_error", "the payment provider is not available; nothing was paid") from None
    call.storage.payments.open(begun.session, organization.id, cents)
    _log.info("a payment of %d cents for %s was begun: %s", cents, organization.slug, begun.session)
    return CheckoutResponse(begun.url)


def configured(provider: PaymentProvider | None) -> PaymentProvider:
    """Return the payment provider. Raises ApiError ``billing_unconfigured``."""
    if provider is None:
        raise ApiError("billing_unconfigured", "this service takes no payments: it has no payment provider")
    return provider


def _provider_key(key: str | None, user: User, organization: Organization) -> str:
    """Return the key for the provider: the caller's, made unlike those of others, or a new one."""
    if key is None:
        return str(uuid4())
    parts = (user.uuid, organization.uuid, key)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
