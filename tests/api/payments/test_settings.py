from __future__ import annotations

from typing import Any

import pytest

from api import PaymentSettings

KEYS = {"secret_key": "sk_test_1", "webhook_secret": "whsec_1"}


def test_nobody_pays_without_keys():
    assert not PaymentSettings().configured
    assert PaymentSettings(**KEYS).configured


@pytest.mark.parametrize(
    ("key", "live"),
    [("sk_test_1", False), ("rk_test_1", False), ("sk_live_1", True), ("rk_live_1", True), ("sk_1", None)],
)
def test_a_key_says_whether_money_is_real(key: str, live: bool | None):
    assert PaymentSettings(**KEYS | {"secret_key": key}).live is live


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"secret_key": "sk_test_1"}, "webhook_secret is missing: set it too, or remove secret_key"),
        ({"webhook_secret": "whsec_1"}, "secret_key is missing: set it too, or remove webhook_secret"),
        (KEYS | {"secret_key": "pk_test_1"}, "secret_key must begin with sk_ or rk_"),
        (KEYS | {"secret_key": "sk_test_1\n"}, "secret_key must begin with sk_ or rk_"),
        (KEYS | {"webhook_secret": "we_1"}, "webhook_secret must begin with whsec_"),
        (KEYS | {"webhook_secret": "whsec_"}, "webhook_secret must begin with whsec_"),
        ({"currency": "USD"}, "currency must be one that has cents"),
        ({"currency": "dollar"}, "currency must be one that has cents"),
        ({"currency": "jpy"}, "currency must be one that has cents"),
        ({"currency": "kwd"}, "currency must be one that has cents"),
        ({"api_base": "http://api.example.org"}, "api_base must be an https:// address without a path"),
        ({"api_base": "http://127.0.0.1.example.org"}, "api_base must be an https:// address"),
        ({"api_base": "http://localhost@example.org"}, "api_base must be an https:// address"),
        ({"api_base": "https://api.example.org/v1"}, "api_base must be an https:// address without a path"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message) as refused:
        PaymentSettings(**settings)
    assert "sk_test_1" not in str(refused.value)


@pytest.mark.parametrize(
    "base", ["https://api.example.org", "http://127.0.0.1:12111", "http://localhost", "http://[::1]:1"]
)
def test_a_provider_is_reached_by_tls_or_on_this_host(base: str):
    assert PaymentSettings(api_base=base).browser_scheme == base.partition("//")[0] + "//"
