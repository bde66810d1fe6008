"""Events of the payment provider, read into what the storage records; pure.

Only a session that names an organization of this service in its metadata can credit. Customers can set other fields of
a session, such as the reference of a payment link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from api.fields import RequiredText
from api.models import RequestBody, json_path
from api.payments.provider import ORGANIZATION
from storage import NewPaymentEvent, PaymentState, RefundReport, RefundTotal, SessionReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.payments.settings import PaymentSettings

_SESSION_STATES = {
    "checkout.session.completed": PaymentState.PROCESSING,
    "checkout.session.async_payment_succeeded": PaymentState.PROCESSING,
    "checkout.session.async_payment_failed": PaymentState.FAILED,
    "checkout.session.expired": PaymentState.EXPIRED,
}
"""The state of a session after an event, unless it is paid."""

_REFUNDS = frozenset({"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"})
_REFUNDED = "charge.refunded"
_LOST = frozenset({"failed", "canceled"})
"""The states of a refund whose money did not go back."""

_KEPT = (
    "id",
    "object",
    "amount",
    "amount_refunded",
    "amount_total",
    "charge",
    "currency",
    "created",
    "expires_at",
    "failure_reason",
    "mode",
    "payment_intent",
    "payment_status",
    "reason",
    "status",
)
"""The fields of an event's object that are kept: none of them is about a person or a card."""

_MOST_CENTS = 10**12
_MOST_CHARS = 255


class EventUnreadable(Exception):
    """An event of the provider lacks what its type needs; the message names the field."""


class _EventData(RequestBody):
    object: dict[str, Any] = Field(examples=[{"id": "cs_test_a1b2c3", "payment_status": "paid"}])


class EventBody(RequestBody):
    """The body of ``POST /api/v0/billing/webhook``: an event of the provider."""

    id: RequiredText = Field(examples=["evt_1PqX2eLkdIwHu7ix"])
    type: RequiredText = Field(examples=["checkout.session.completed"])
    livemode: bool = False
    data: _EventData


class _Named(RequestBody):
    id: RequiredText


class _About(RequestBody):
    """An object about a payment, which is named, or given whole."""

    id: RequiredText
    currency: str | None = None
    payment_intent: RequiredText | _Named | None = None

    @property
    def intent(self) -> str | None:
        named = self.payment_intent
        return named.id if isinstance(named, _Named) else named


class _Session(_About):
    mode: str | None = None
    payment_status: str
    amount_total: int | None = Field(None, ge=0, le=_MOST_CENTS)
    metadata: dict[str, str] | None = None


class _Refund(_About):
    amount: int = Field(ge=0, le=_MOST_CENTS)
    status: str | None = None


class _Charge(_About):
    amount_refunded: int = Field(ge=0, le=_MOST_CENTS)


def read_event(body: EventBody, settings: PaymentSettings) -> NewPaymentEvent:
    """Return the event with what follows from it for this service. Raises EventUnreadable."""
    try:
        report, reason = _report(body, settings)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        path = json_path(("data", "object", *fault["loc"]))
        raise EventUnreadable(f"{path}: {fault['msg']}") from None
    return NewPaymentEvent(body.id, body.type, _kept(body), report, reason)


def _report(
    body: EventBody, settings: PaymentSettings
) -> tuple[SessionReport | RefundReport | RefundTotal | None, str | None]:
    """Return the report of an event, or why it has none."""
    about = body.data.object
    if body.type in _SESSION_STATES:
        read: Any = _session
    elif body.type in _REFUNDS:
        read = _refund
    elif body.type == _REFUNDED:
        read = _refunded
    else:
        return None, None
    if settings.live is not None and body.livemode is not settings.live:
        return None, f"the event is {_mode(live=body.livemode)}, payments.secret_key is {_mode(live=settings.live)}"
    found = read(body.type, about, settings)
    return (None, found) if isinstance(found, str) else (found, None)


def _session(event_type: str, about: Mapping[str, object], settings: PaymentSettings) -> SessionReport | str:
    session = _Session.model_validate(about)
    organization = (session.metadata or {}).get(ORGANIZATION)
    if organization is None or session.mode != "payment":
        return f"the session {session.id} is not one of this service"
    if wrong := _wrong_currency(session, settings):
        return wrong
    if not session.amount_total:
        return f"the session {session.id} has no amount"
    state = _SESSION_STATES[event_type]
    if session.payment_status == "paid" and state is PaymentState.PROCESSING:
        state = PaymentState.PAID
    return SessionReport(session.id, organization, state, session.amount_total, session.intent)


def _refund(event_type: str, about: Mapping[str, object], settings: PaymentSettings) -> RefundReport | str:
    refund = _Refund.model_validate(about)
    if refund.intent is None:
        return f"the refund {refund.id} names no payment"
    failed = event_type == "refund.failed" or refund.status in _LOST
    return _wrong_currency(refund, settings) or RefundReport(refund.id, refund.intent, refund.amount, failed)


def _refunded(_type: str, about: Mapping[str, object], settings: PaymentSettings) -> RefundTotal | str:
    charge = _Charge.model_validate(about)
    if charge.intent is None:
        return f"the charge {charge.id} names no payment"
    return _wrong_currency(charge, settings) or RefundTotal(charge.intent, charge.amount_refunded)


def _wrong_currency(about: _About, settings: PaymentSettings) -> str | None:
    if about.currency == settings.currency:
        return None
    return (
        f"{about.id} is in {(about.currency or 'no currency')[:_MOST_CHARS]}, payments.currency is {settings.currency}"
    )


def _mode(*, live: bool) -> str:
    return "live" if live else "one for tests"


def _kept(body: EventBody) -> dict[str, object]:
    about = body.data.object
    kept: dict[str, object] = {name: _plain(about[name]) for name in _KEPT if name in about}
    metadata = about.get("metadata")
    if isinstance(metadata, dict) and ORGANIZATION in metadata:
        kept["metadata"] = {ORGANIZATION: _plain(metadata[ORGANIZATION])}
    return {"id": body.id, "type": body.type, "livemode": body.livemode, "data": {"object": kept}}


def _plain(value: object) -> object:
    """Return a short text or a number as it is, and of an object that was given whole only its name."""
    if isinstance(value, dict):
        value = value.get("id")
    if isinstance(value, str):
        return value[:_MOST_CHARS]
    return value if isinstance(value, int) else None
