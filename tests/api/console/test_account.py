"""The page of an account and its forms."""

from __future__ import annotations

import re

from tests.api.console.browser import Browser
from tests.api.world import Account


def actions(account: Account) -> list[str]:
    entries = account.world.storage.audit.page(100, None).rows
    return [entry.action for entry in reversed(entries) if entry.actor == account.email]


def test_signing_out_ends_the_session(ada: Account):
    browser = Browser.of(ada)
    token = browser.cookies["__Host-session"]
    answered = browser.send("/account", "account/sign-out")
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../login")
    assert "__Host-session" not in browser.cookies
    assert ada.world.storage.tokens.caller(token) is None
    assert actions(ada)[-1] == "logout"


def test_an_api_key_is_shown_once(ada: Account):
    browser = Browser.of(ada)
    made = browser.send("/account", "account/api-keys", description="for the robot")
    assert made.headers["Cache-Control"] == "no-store"
    found = re.search(r"ci_[\w-]{43}", made.text)
    assert found is not None
    assert ada.world.storage.tokens.caller(found[0]) is not None
    shown = browser.get("/account").text
    assert "for the robot" in shown
    assert found[0] not in shown

    (key,) = [each for each in ada.world.storage.tokens.api_keys(ada.user.id) if each.description == "for the robot"]
    revoked = browser.send("/account", f"account/api-keys/{key.uuid}/revoke")
    assert revoked.headers["Location"] == "./../../../account#api-keys"
    assert ada.world.storage.tokens.caller(found[0]) is None
    assert actions(ada)[-2:] == ["createApiToken", "revokeApiToken"]


def test_an_api_key_is_limited(ada: Account):
    browser = Browser.of(ada)
    browser.send(
        "/account", "account/api-keys", description="robot", scopes="start fork", only=ada.org, budget_cents="500"
    )
    (key, _) = ada.world.storage.tokens.api_keys(ada.user.id)
    assert (key.limits.scopes, key.limits.organization_id) == (("start", "fork"), ada.org_id)
    assert f"may start, fork · only {ada.org} · spent 0 of 500 cents" in browser.get("/account").text


def test_a_session_of_another_device_is_ended(ada: Account):
    browser, phone = Browser.of(ada), Browser.of(ada)
    _, phones = reversed(ada.world.storage.tokens.sessions(ada.user.id))
    answered = browser.send("/account", f"account/sessions/{phones.uuid}/end")
    assert answered.status_code == 303
    assert phone.get("/account").status_code == 303
    assert browser.get("/account").status_code == 200
    assert actions(ada)[-1] == "endSession"


def test_mail_about_builds_is_switched_off_and_on(ada: Account):
    browser, opt_outs = Browser.of(ada), ada.world.storage.mail_opt_outs
    assert 'name="builds" checked' in browser.get("/account").text
    assert browser.send("/account", "account/mail").status_code == 303
    assert opt_outs.has(ada.email)
    assert 'name="builds" checked' not in browser.get("/account").text
    browser.send("/account", "account/mail", builds="on")
    assert not opt_outs.has(ada.email)
    assert actions(ada)[-1] == "updateMailSettings"


def test_records_of_others_are_not_touched(ada: Account, bob: Account):
    mallory, victim = Browser.of(bob), Browser.of(ada)
    token = mallory.fields("/account", "account/sign-out")
    (session,) = ada.world.storage.tokens.sessions(ada.user.id)
    (key,) = ada.world.storage.tokens.api_keys(ada.user.id)
    assert mallory.post(f"/account/sessions/{session.uuid}/end", token).status_code == 404
    assert mallory.post(f"/account/api-keys/{key.uuid}/revoke", token).status_code == 404
    assert victim.get("/account").status_code == 200
    assert ada.client.simulate_get("/api/v0/user").status_code == 200
