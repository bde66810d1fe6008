"""The payment provider: sessions begun by its library, and its signature on what it sends.

The library is imported at its first use, because most services take no payments: it takes 0.2 s and 25 MB.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import logging
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors import FrontEnd
    from api.payments.settings import PaymentSettings
    from storage import Organization

__all__ = ["ORGANIZATION", "CheckoutSession", "KeyReused", "PaymentProvider", "ProviderFailed", "SignatureInvalid"]

_log = logging.getLogger(__name__)

ORGANIZATION = "ci_daemon_organization"
"""The key of a session's metadata under which its organization's UUID is."""

_RETRIES = 1
_AT_ONCE = 16
"""The most requests to the provider at once: one that hangs must not take all threads of the server."""

_TOLERANCE_SECONDS = 300
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
            session = self._create(self._parameters(organization, amount_cents), key)
        name, url = getattr(session, "id", None), getattr(session, "url", None)
        if not isinstance(name, str) or not isinstance(url, str) or not name or not self._is_page(url):
            raise ProviderFailed("the provider answered without a session and the address of its page")
        return CheckoutSession(name, url)

    def verify(self, body: bytes, signature: str | None) -> None:
        """Check the signature of a body that the provider sent. Raises SignatureInvalid."""
        from stripe import SignatureVerificationError, WebhookSignature

        try:
            WebhookSignature.verify_header(body.decode(), signature, self._settings.webhook_secret, _TOLERANCE_SECONDS)
        except (SignatureVerificationError, ValueError, TypeError) as error:
            # ValueError: a body that is not UTF-8; TypeError: a signature beyond ASCII
            raise SignatureInvalid("the body has no valid signature of the provider") from error

    def _create(self, parameters: dict[str, Any], key: str) -> object:
        import stripe

        stripe.enable_telemetry = False
        logging.getLogger("stripe").setLevel(logging.WARNING)  # at lower levels it logs the bodies of requests
        with closing(stripe.RequestsClient(timeout=self._settings.timeout)) as http:
            client = stripe.StripeClient(
                self._settings.secret_key,
                base_addresses={"api": self._settings.api_base},
                max_network_retries=_RETRIES,
                http_client=http,
            )
            try:
                return client.v1.checkout.sessions.create(parameters, {"idempotency_key": key})  # type: ignore[arg-type]
            except stripe.IdempotencyError as error:
                raise KeyReused from error
            except (stripe.StripeError, AttributeError, LookupError, TypeError, ValueError) as error:
                # The library checks little of an answer, so one that is not the provider's breaks it in many ways.
                raise ProviderFailed(f"{type(error).__name__}: {_one_line(error)}") from error

    def _parameters(self, organization: Organization, amount_cents: int) -> dict[str, Any]:
        described = f"CI credit for {organization.slug}"
        metadata = {ORGANIZATION: organization.uuid}
        price = {
            "currency": self._settings.currency,
            "unit_amount": amount_cents,
            "product_data": {"name": described},
        }
        return {
            "mode": "payment",
            "line_items": [{"quantity": 1, "price_data": price}],
            "adaptive_pricing": {"enabled": False},  # the ledger has one currency
            "metadata": metadata,
            "payment_intent_data": {"description": described, "metadata": metadata},
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


def _one_line(error: Exception) -> str:
    """Return an error's message for the log; it may quote a whole answer."""
    return " ".join(str(error).split())[:_MOST_CHARS]
