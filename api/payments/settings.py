"""The configuration section of the payment provider, with its defaults."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from storage import immutable, pattern, setting

_SECRET_KEY = pattern(r"(?:sk|rk)_[A-Za-z0-9_]+", re.ASCII)
_WEBHOOK_SECRET = pattern(r"whsec_[A-Za-z0-9+/=_-]+", re.ASCII)
_CURRENCY = pattern(r"[a-z]{3}", re.ASCII)
_API_BASE = pattern(r"https://[^\s/?#@]+|http://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?", re.ASCII)
_WITHOUT_CENTS = pattern(
    "bhd|bif|clp|djf|gnf|iqd|jod|jpy|kmf|krw|kwd|lyd|mga|omr|pyg|rwf|tnd|ugx|vnd|vuv|xaf|xof|xpf", re.ASCII
)
"""Currencies whose smallest unit is not a hundredth."""


@immutable
class PaymentSettings:
    """Section ``[payments]``: the payment provider, Stripe, by which organizations top up their balance.

    Without keys nobody can pay, and everything else works.
    """

    secret_key: str = setting("", "The provider's secret key, or a restricted one that writes sessions.", secret=True)
    webhook_secret: str = setting("", "The signing secret of the webhook at the provider.", secret=True)
    currency: str = setting("usd", "The currency of the ledger's cents, as three lower-case letters.")
    api_base: str = setting("https://api.stripe.com", "The address of the provider's API.")
    timeout: float = setting(
        10.0, "The seconds to wait for the provider; a request is tried twice.", above=0, at_most=60
    )

    def __post_init__(self) -> None:
        if bool(self.secret_key) != bool(self.webhook_secret):
            missing, given = ("webhook_secret", "secret_key") if self.secret_key else ("secret_key", "webhook_secret")
            raise ValueError(f"{missing} is missing: set it too, or remove {given}; payments need both")
        if self.secret_key and not _SECRET_KEY.fullmatch(self.secret_key):
            raise ValueError("secret_key must begin with sk_ or rk_: a publishable key (pk_) cannot begin payments")
        if self.webhook_secret and not _WEBHOOK_SECRET.fullmatch(self.webhook_secret):
            raise ValueError("webhook_secret must begin with whsec_: the provider shows it beside the webhook")
        if not _CURRENCY.fullmatch(self.currency) or _WITHOUT_CENTS.fullmatch(self.currency):
            raise ValueError(f'currency must be one that has cents, such as "usd" or "eur", not "{self.currency}"')
        if not _API_BASE.fullmatch(self.api_base):
            raise ValueError(f'api_base must be an https:// address without a path, not "{self.api_base}"')

    @property
    def configured(self) -> bool:
        """True if organizations can pay."""
        return bool(self.secret_key)

    @property
    def live(self) -> bool | None:
        """True if the key moves real money, False if it is one for tests, None if it does not say."""
        mode = re.match(r"(?:sk|rk)_(live|test)_", self.secret_key)
        return None if mode is None else mode[1] == "live"

    @property
    def browser_scheme(self) -> str:
        """The beginning of the provider's pages: https://, but for a provider on this host."""
        return f"{urlsplit(self.api_base).scheme}://"
