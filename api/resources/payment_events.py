"""The events of the payment provider."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import Field

from api.bodies import answer, body_bytes, parse_json
from api.errors.catalog import ApiError
from api.models import check_body
from api.openapi.operations import Answer, Parameter, operation
from api.operations.payments import configured
from api.payments.events import EventBody, EventUnreadable, read_event
from api.payments.provider import SignatureInvalid
from storage import EventEffect, JsonModel

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from api.payments.provider import PaymentProvider
    from storage import Storage

_log = logging.getLogger(__name__)

_SIGNATURE = "Stripe-Signature"
_ACTOR = "payment provider"


class PaymentEventResponse(JsonModel):
    """The effect of an event; of a repeated one, that of the first time."""

    id: str = Field(examples=["evt_1PqX2eLkdIwHu7ix"])
    effect: EventEffect
    repeated: bool


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
        tag="payments",
    )
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Receive an event of the payment provider: a paid session is a credit, a refund a debit.

        Only bad signatures are rate-limited, so that the provider's events always arrive.
        """
        provider = configured(self._provider)
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
