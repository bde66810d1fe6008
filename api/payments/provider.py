"""The payment provider, Stripe: its sessions, and its signature on what it sends."""

from __future__ import annotations

import hmac
import threading
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pydantic_core

from actors import Deadline, NoAnswer, TimedBackend, exchange, proxy_to
from storage import immutable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    from actors import Answer, FrontEnd
    from api.payments.settings import PaymentSettings
    from storage import Organization

ORGANIZATION = "ci_daemon_organization"
"""The key of a session's metadata under which its organization's UUID is."""

_VERSION = "2026-10-28.endive"
"""The version of the provider's API that this is written for, whatever the account's own is."""

_SECONDS_BETWEEN = 0.5
_MOST_BYTES = 2**20
_AT_ONCE = 16
"""The most requests to the provider at once: one that hangs must not take all threads of the server."""

_TOLERANCE_SECONDS = 300
_SCHEME = "v1"
_MOST_CHARS = 300


class ProviderFailed(Exception):
    """The provider refused, was away, or answered nonsense; the message is for the log of the service."""


class KeyReused(Exception):
    """The idempotency key was used for another request."""


class SignatureInvalid(Exception):
    """The body was not signed by the provider, or too long ago."""


@immutable
class CheckoutSession:
    """A session at the provider, and the address of the page on which its customer pays."""

    session: str
    url: str


class PaymentProvider:
    """Stripe, reached with the keys of the configuration. Safe in any thread."""

    def __init__(self, settings: PaymentSettings, pages: FrontEnd) -> None:
        """Store the settings, and the pages to which customers come back."""
        self._settings = settings
        self._pages = pages
        self._slots = threading.BoundedSemaphore(_AT_ONCE)

    @classmethod
    def of(cls, settings: PaymentSettings, pages: FrontEnd) -> PaymentProvider | None:
        """Return the provider; None if the configuration has no keys of it."""
        return cls(settings, pages) if settings.configured else None

    @property
    def settings(self) -> PaymentSettings:
        """The section ``[payments]``."""
        return self._settings

    def begin(self, organization: Organization, amount_cents: int, key: str) -> CheckoutSession:
        """Begin a session in which an organization pays; the same ``key`` gives the same session.

        Raises ProviderFailed or KeyReused.
        """
        with self._slot():
            session = _session(self._create(self._form(organization, amount_cents), key))
        name, url = session.get("id"), session.get("url")
        if not isinstance(name, str) or not isinstance(url, str) or not name or not self._is_page(url):
            raise ProviderFailed("the provider answered without a session and the address of its page")
        return CheckoutSession(name, url)

    def verify(self, body: bytes, signature: str | None) -> None:
        """Check the signature of a body that the provider sent. Raises SignatureInvalid."""
        parts = [each.partition("=") for each in (signature or "").split(",")]
        moment = next((value for name, _, value in parts if name == "t"), "")
        signed = hmac.new(self._settings.webhook_secret.encode(), f"{moment}.".encode() + body, "sha256").hexdigest()
        given = [value for name, _, value in parts if name == _SCHEME]
        if not any(hmac.compare_digest(signed.encode(), each.encode()) for each in given):
            raise SignatureInvalid("the body has no valid signature of the provider")
        if not moment.isdecimal() or int(moment) < time.time() - _TOLERANCE_SECONDS:
            raise SignatureInvalid("the provider's signature is too old")

    def _create(self, form: Mapping[str, str | int], key: str) -> Answer:
        """Return the answer to the request for a session, which is sent once more where that may help.

        Raises ProviderFailed.
        """
        headers = {
            "Authorization": f"Bearer {self._settings.secret_key}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Idempotency-Key": key,
            "Stripe-Version": _VERSION,
        }
        body = urlencode(form).encode()
        with suppress(NoAnswer):
            answer = self._send(headers, body)
            if not _may_succeed_later(answer):
                return answer
        time.sleep(_SECONDS_BETWEEN)
        try:
            return self._send(headers, body)
        except NoAnswer as error:
            raise ProviderFailed(f"the provider {error}") from None

    def _send(self, headers: Mapping[str, str], body: bytes) -> Answer:
        url, backend = f"{self._settings.api_base}/v1/checkout/sessions", TimedBackend(Deadline(self._settings.timeout))
        return exchange(
            "POST", url, headers, body,
            backend=backend, ssl_context=lambda: self._ssl_context, most_bytes=_MOST_BYTES, proxy=proxy_to(url),
        )  # fmt: skip

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        """The trusted authorities, which take a tenth of a second to read."""
        import httpx  # noqa: PLC0415 - it imports its own command, which would take a tenth of the service's start

        return httpx.create_ssl_context()

    def _form(self, organization: Organization, amount_cents: int) -> dict[str, str | int]:
        described = f"CI credit for {organization.slug}"
        price = "line_items[0][price_data]"
        return {
            "mode": "payment",
            "line_items[0][quantity]": 1,
            f"{price}[currency]": self._settings.currency,
            f"{price}[unit_amount]": amount_cents,
            f"{price}[product_data][name]": described,
            "adaptive_pricing[enabled]": "false",  # the ledger has one currency
            f"metadata[{ORGANIZATION}]": organization.uuid,
            "payment_intent_data[description]": described,
            f"payment_intent_data[metadata][{ORGANIZATION}]": organization.uuid,
            "success_url": self._pages.page(self._pages.paid),
            "cancel_url": self._pages.page(self._pages.canceled),
        }

    def _is_page(self, url: str) -> bool:
        return url.startswith(self._settings.browser_scheme) and url.isprintable() and " " not in url

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            raise ProviderFailed(f"{_AT_ONCE} requests wait for the provider already")
        try:
            yield
        finally:
            self._slots.release()


def _may_succeed_later(answer: Answer) -> bool:
    """Tell whether the provider asks for another try; if it says nothing, failures of its own may pass."""
    match answer.headers.get("stripe-should-retry"):
        case "true":
            return True
        case "false":
            return False
    return answer.status == HTTPStatus.CONFLICT or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _session(answer: Answer) -> dict[str, Any]:
    """Return the session in an answer. Raises ProviderFailed and KeyReused."""
    document = _object(answer.content)
    if answer.ok:
        return document
    error = document.get("error")
    error = error if isinstance(error, dict) else {}
    if error.get("type") == "idempotency_error":
        raise KeyReused
    request = answer.headers.get("request-id", "without a name")
    raise ProviderFailed(
        _one_line(f"{answer.status}, request {request}: {error.get('message', answer.content[:_MOST_CHARS])}")
    )


def _object(content: bytes) -> dict[str, Any]:
    """Return a JSON object, an empty one for anything else."""
    with suppress(ValueError):
        document = pydantic_core.from_json(content)
        if isinstance(document, dict):
            return document
    return {}


def _one_line(text: str) -> str:
    """Return a text for the log; it may quote a whole answer."""
    return "".join(each if each.isprintable() else " " for each in text)[:_MOST_CHARS]
