"""The cookie of a session, and what proves a form to be ours."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from api import HttpSettings, RateLimitSettings
from storage import Storage
from tests.api.console.browser import Browser
from tests.api.world import Account, World
from tests.clock import ManualClock

SESSION = "__Host-session"


def test_a_session_token_becomes_a_cookie(ada: Account):
    answered = ada.signed_in().simulate_post("/login/session")
    assert (answered.status_code, answered.content) == (204, b"")
    cookie = answered.cookies[SESSION]
    assert (cookie.path, cookie.domain, cookie.max_age) == ("/", None, 30 * 24 * 3600)
    assert (cookie.secure, cookie.http_only, cookie.same_site) == (True, True, "Lax")
    assert answered.headers["Cache-Control"] == "no-store"


def test_an_api_key_becomes_no_cookie(world: World, ada: Account):
    answered = ada.client.simulate_post("/login/session")
    assert (answered.status_code, answered.json["error"]["code"]) == (403, "session_required")
    assert not answered.cookies
    assert world.anonymous.simulate_post("/login/session").status_code == 401


def test_an_api_key_is_no_session_of_a_browser(ada: Account):
    answered = Browser(ada.world, {SESSION: ada.token}).get("/account")
    assert (answered.status_code, answered.headers["Location"]) == (303, "./login?next=/account")


def test_the_cookie_is_no_token_of_the_api(ada: Account):
    """So no other site can use the API with it."""
    assert Browser.of(ada).get("/api/v0/user").status_code == 401


def test_an_expired_session_leads_to_the_login(ada: Account):
    browser = Browser.of(ada)
    assert browser.get("/account").status_code == 200
    ada.world.clock.advance(31 * 24 * 3600)
    assert browser.get("/account").headers["Location"] == "./login?next=/account"


def test_the_root_is_home_for_who_is_signed_in(world: World, ada: Account):
    assert ">Home</h1>" in Browser.of(ada).get("/").text
    assert Browser(world).get("/").headers["Location"] == "./login"


@pytest.mark.parametrize("token", ["", "0" * 64, "é", None])
def test_a_form_without_its_token_changes_nothing(ada: Account, token: str | None):
    browser = Browser.of(ada)
    answered = browser.post("/account/profile", {"name": "Mallory", **({} if token is None else {"form_token": token})})
    assert answered.status_code == 403
    assert "<h1>Forbidden</h1>" in answered.text
    assert ada.user.name == "Ada"


def test_a_form_of_another_session_changes_nothing(ada: Account, bob: Account):
    browser = Browser.of(ada)
    strange = Browser.of(bob).fields("/account", "account/profile")
    assert browser.post("/account/profile", {**strange, "name": "Mallory"}).status_code == 403
    visitors = Browser(ada.world).fields("/login", "login/recover/begin") if ada.world.engine.sends_mail else {}
    assert browser.post("/account/profile", {**visitors, "name": "Mallory"}).status_code == 403
    assert ada.user.name == "Ada"


def test_a_form_of_an_ended_session_says_so(ada: Account):
    browser = Browser.of(ada)
    fields = browser.fields("/account", "account/profile")
    ada.world.storage.tokens.revoke(browser.cookies[SESSION])
    answered = browser.post("/account/profile", {**fields, "name": "Mallory"})
    assert answered.status_code == 401
    assert "you are not signed in any more" in answered.text


def test_a_form_that_is_no_form_is_refused(ada: Account):
    browser = Browser.of(ada)
    json = browser.ask("POST", "/account/profile", body="{}", headers={"Content-Type": "application/json"})
    assert json.status_code == 415
    assert browser.post("/account/profile", {"name": "x" * 70_000}).status_code == 413
    assert browser.post("/account/profile", {f"field{number}": "" for number in range(60)}).status_code == 400


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/https://evil.example",
        "///evil.example",
        "javascript:alert(1)",
        "/\tevil",
        "/../../..//evil.example",
        "\\\\evil.example",
    ],
)
def test_the_login_leads_to_no_other_host(ada: Account, target: str):
    at = "https://ci.example.org/login"
    signed_in = Browser.of(ada).get("/login", params={"next": target})
    assert signed_in.status_code == 303
    assert urljoin(at, signed_in.headers["Location"]).startswith("https://ci.example.org/")
    shown = Browser(ada.world).get("/login", params={"next": target}).text
    (following,) = [line for line in shown.splitlines() if "data-next" in line]
    assert urljoin(at, following.split('data-next="')[1].split('"')[0]).startswith("https://ci.example.org/")


def test_the_login_leads_back(ada: Account):
    answered = Browser.of(ada).get("/login", params={"next": "/cli-login?nonce_hash=ab"})
    assert answered.headers["Location"] == "./cli-login?nonce_hash=ab"


def test_pages_are_limited_without_a_session_alone(storage: Storage, clock: ManualClock, settings: HttpSettings):
    world = World.create(storage, clock, settings, RateLimitSettings(address_per_minute=5))
    browser = Browser.of(world.sign_up("ada@example.org"))
    assert {browser.get("/").status_code for _ in range(10)} == {200}
    assert [Browser(world).get("/login").status_code for _ in range(6)][-1] == 429
    forged = Browser(world, {SESSION: "forged"})
    assert forged.get("/login").status_code == 429
