"""The page on which a person accepts an invite."""

from __future__ import annotations

import pytest

from tests.api.console.browser import Browser
from tests.api.console.test_account import actions
from tests.api.world import Account

ACCEPT = "invites/accept"


@pytest.fixture
def token(ada: Account, bob: Account) -> str:
    """An invite of Bob's to Ada's organization."""
    answered = ada.client.simulate_post(f"{ada.path}/invites", json={"email": bob.email, "role": "member"})
    token: str = answered.json["token"]
    return token


def test_an_invite_is_accepted_once(ada: Account, bob: Account, token: str):
    browser = Browser.of(bob)
    answered = browser.send("/invites", ACCEPT, token=token)
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../invites/accepted")
    assert bob.client.simulate_get(ada.path).status_code == 200
    assert actions(bob)[-1] == "acceptInvite"
    again = browser.send("/invites", ACCEPT, token=token)
    assert again.status_code == 422
    assert "<h1>" in again.text


def test_an_invite_of_somebody_else_is_refused(ada: Account, token: str):
    assert Browser.of(ada).send("/invites", ACCEPT, token=token).status_code == 422
    assert Browser.of(ada).send("/invites", ACCEPT, token="").status_code == 422


def test_another_site_accepts_no_invite(ada: Account, bob: Account, token: str):
    assert Browser.of(bob).post(f"/{ACCEPT}", {"token": token}).status_code == 403
    assert bob.client.simulate_get(ada.path).status_code == 404


def test_a_visitor_signs_in_before(ada: Account):
    shown = Browser(ada.world).get("/invites")
    assert "login?next=/invites" in shown.text
    assert ACCEPT not in shown.text
