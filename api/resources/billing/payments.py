"""Payments: checkout at the payment provider, and the provider's events."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

from pydantic import Field

from api.bodies import answer, body_bytes, parse_json
from api.errors.catalog import ApiError
from api.fields import RequestBody, check_body
from api.middleware.idempotency import KEY_PARAMETERS, read_submission
from api.openapi.operations import Answer, Parameter, operation
from api.operations.operation import KEY_ERRORS
from api.payments.events import EventBody, EventUnreadable, read_event
from api.payments.provider import KeyReused, PaymentProvider, ProviderFailed, SignatureInvalid
from storage import EventEffect, JsonModel, Role, Storage

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access, Membership
    from api.middleware.rate_limits import RateLimits

_log = logging.getLogger(__name__)

_LEAST, _MOST = 100, 1_000_000
_SIGNATURE = "Stripe-Signature"
_ACTOR = "payment provider"


class CheckoutRequest(RequestBody):
    """The body of ``POST /api/v0/billing/checkout/{org}``."""

    amount_cents: Annotated[int, Field(examples=[2500], json_schema_extra={"minimum": _LEAST, "maximum": _MOST})]


class CheckoutResponse(JsonModel):
    """The provider's page on which the organization pays."""

    checkout_url: str


class PaymentEventResponse(JsonModel):
    """The effect of an event; of a repeated one, that of the first time."""

    id: str = Field(examples=["evt_1PqX2eLkdIwHu7ix"])
    effect: EventEffect
    repeated: bool


class CheckoutResource:
    """``/api/v0/billing/checkout/{org}``."""

    def __init__(
        self,
        storage: Storage,
        access: Access,
        limits: RateLimits,
        provider: PaymentProvider | None,
    ) -> None:
        self._payments = storage.payments
        self._access = access
        self._limits = limits
        self._provider = provider

    @operation(
        "createCheckout",
        Answer(200, "The page on which to pay.", CheckoutResponse),
        body=CheckoutRequest,
        errors=(
            "organization_not_found",
            "insufficient_org_role",
            "invalid_amount",
            "billing_unconfigured",
            "billing_provider_error",
            *KEY_ERRORS,
        ),
        parameters=KEY_PARAMETERS,
    )
    def on_post(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Begin a payment for the organization; needs the role admin.

        The balance changes when the payment provider confirms the payment.
        """
        self._limits.limit_address(req, resp)
        member = self._access.member(req, org, Role.ADMIN)
        self._limits.limit_account(member.caller, resp)
        submission = read_submission(req, CheckoutRequest)
        amount_cents = check_body(submission.document, CheckoutRequest).amount_cents
        if not _LEAST <= amount_cents <= _MOST:
            raise ApiError("invalid_amount", f"amount_cents: expected {_LEAST} to {_MOST} cents, got {amount_cents}")
        provider = _configured(self._provider)
        organization = member.organization
        try:
            begun = provider.begin(organization, amount_cents, _provider_key(submission.key, member))
        except KeyReused:
            raise ApiError("idempotency_conflict", "this Idempotency-Key belongs to another checkout") from None
        except ProviderFailed as error:
            _log.warning("no payment for %s was begun: %s", organization.slug, error)
            raise ApiError(
                "billing_provider_error", "the payment provider is not available; nothing was paid"
            ) from None
        self._payments.open(begun.session, organization.id, amount_cents)
        _log.info("a payment of %d cents for %s was begun: %s", amount_cents, organization.slug, begun.session)
        answer(resp, CheckoutResponse(checkout_url=begun.url))


class PaymentEventsResource:
    """``/api/v0/billing/webhook``, which the payment provider calls."""

    def __init__(self, storage: Storage, limits: RateLimits, provider: PaymentProvider | None) -> None:
        self._payments = storage.payments
        self._limits = limits
        self._provider = provider

    @operation(
        "receivePaymentEvent",
        Answer(200, "The event is kept; it has its effect once.", PaymentEventResponse),
        body=EventBody,
        errors=("webhook_signature_invalid", "billing_unconfigured", "rate_limited"),
        parameters=(
            Parameter(
                _SIGNATURE,
                "The provider's signature of the body, not older than 300 seconds.",
                {"type": "string", "examples": ["t=1767225600,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff"]},
                "header",
                required=True,
            ),
        ),
        security="public",
        counted=False,
    )
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Receive an event of the payment provider: a paid session is a credit, a refund a debit.

        Only bad signatures are rate-limited, so that the provider's events always arrive.
        """
        provider = _configured(self._provider)
        body = body_bytes(req)
        try:
            provider.verify(body, req.get_header(_SIGNATURE))
        except SignatureInvalid as error:
            self._limits.limit_failures(req)
            raise ApiError("webhook_signature_invalid", f"{_SIGNATURE}: {error}") from None
        received = check_body(parse_json(body), EventBody)
        try:
            event = read_event(received, provider.settings)
        except EventUnreadable as error:
            raise ApiError("invalid_body", str(error)) from None
        outcome = self._payments.record(event)
        if outcome.reason is not None:
            _log.warning("event %s (%s) changed no balance: %s", event.event, event.type, outcome.reason)
        elif not outcome.repeated:
            _log.info("event %s (%s) for %s: %s", event.event, event.type, outcome.organization, outcome.effect)
        req.context.actor = _ACTOR
        req.context.named = {} if outcome.organization is None else {"org": outcome.organization}
        answer(resp, PaymentEventResponse(id=event.event, effect=outcome.effect, repeated=outcome.repeated))


def _configured(provider: PaymentProvider | None) -> PaymentProvider:
    if provider is None:
        raise ApiError("billing_unconfigured", "this service takes no payments: it has no payment provider")
    return provider


def _provider_key(key: str | None, member: Membership) -> str:
    """Return the key for the provider: the caller's, made unlike those of others, or a new one."""
    if key is None:
        return str(uuid4())
    parts = (member.caller.user.uuid, member.organization.uuid, key)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
