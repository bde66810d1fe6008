"""Forms that are none: too long, of too many fields, or not what a browser sends."""

from __future__ import annotations

import pytest

from tests.api.console.browser import Browser
from tests.api.world import Account

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (FORM, b"name=" + b"x" * 2**16, 413),
        (FORM, b"&".join(b"f%d=1" % number for number in range(51)), 400),
        (FORM, b"name=%ff", 400),
        ("application/json", b"{}", 415),
    ],
    ids=["long", "fields", "bytes", "kind"],
)
def test_what_is_no_form_is_refused_before_its_token(ada: Account, kind: str, body: bytes, status: int):
    answered = Browser.of(ada).ask("POST", "/account/profile", body=body, headers={"Content-Type": kind})
    assert answered.status_code == status
