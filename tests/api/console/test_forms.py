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


@pytest.mark.parametrize("digits", [16, 5_000], ids=["64 bits", "Python"])
def test_more_digits_than_a_number_has_are_refused(ada: Account, digits: int):
    """Python reads no number of more than 4,300 digits."""
    browser, long = Browser.of(ada), "9" * digits
    token = {"form_token": browser.fields("/account", "account/api-keys")["form_token"]}
    job = ada.pipeline().build().job()
    page = f"/{job.build.stored.page}"
    terminal = ada.client.simulate_post(f"{job.path}/terminals", json={}).json["id"]
    forms = {
        "/account/api-keys": {"description": "agent", "budget_cents": long},
        f"{page.partition('/builds/')[0]}/quarantine": {"name": "test_a", "days": long},
        f"/{ada.org}/environments/create": {"name": "production", "hours": long},
        f"{page}/jobs/{job.stored.uuid}/terminals/{terminal}/size": {"columns": long, "rows": "24"},
    }
    refused = {path: browser.post(path, token | fields).status_code for path, fields in forms.items()}
    assert refused == dict.fromkeys(forms, 422)
