"""Signing in with identity providers on pages, against local providers."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from falcon import testing

from api import HttpSettings, IdentitySettings
from storage import Storage
from tests.api.console.browser import Browser
from tests.api.world import World
from tests.clock import ManualClock
from tests.identity.google import Google
from tests.identity.issuer import ScriptedIssuer
from tests.identity.local_server import LocalServer, local_server

CALLBACK = "https://ci.example.org/login/with/corp/callback"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still at the time of the providers."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def server() -> Any:
    with local_server() as server:
        yield server


@pytest.fixture
def issuer(server: LocalServer, clock: ManualClock) -> ScriptedIssuer:
    return ScriptedIssuer(server, int(clock.now().timestamp()))


@pytest.fixture
def open_world(storage: Storage, clock: ManualClock, settings: HttpSettings) -> Callable[..., World]:
    def make(**identity: Any) -> World:
        keys = {"signup": "open", "provider_timeout": 5.0, **identity}
        world = World.create(storage, clock, settings, identity=IdentitySettings(**keys))
        world.sign_up("owner@example.org", "Owner")
        return world

    return make


@pytest.fixture
def world(open_world: Callable[..., World], issuer: ScriptedIssuer, server: LocalServer) -> World:
    google = Google(server, redirect_uri="https://ci.example.org/login/with/google/callback")
    return open_world(oidc={"corp": issuer.settings}, google=google.settings)


def begun(browser: Browser, name: str = "corp", **query: str) -> dict[str, str]:
    """Go to the provider; return what it is asked."""
    answered = browser.get(f"/login/with/{name}", params=query)
    assert answered.status_code == 303, answered.text
    return {key: value for key, (value,) in parse_qs(urlsplit(answered.headers["Location"]).query).items()}


def back(browser: Browser, name: str = "corp", **query: str) -> testing.Result:
    return browser.get(f"/login/with/{name}/callback", params=query)


def refused(answered: testing.Result) -> bool:
    return (answered.status_code, "__Host-session" in answered.cookies) == (400, False) and "<h1>" in answered.text


def test_a_person_signs_in_with_an_issuer(world: World, issuer: ScriptedIssuer, server: LocalServer):
    browser = Browser(world)
    assert "Continue with corp" in browser.get("/login").text
    asked = begun(browser, next="/cli-login?nonce=a")
    assert (asked["response_type"], asked["client_id"], asked["redirect_uri"]) == ("code", "ci-daemon", CALLBACK)
    assert asked["code_challenge_method"] == "S256"
    cookie = browser.cookies["__Host-sign-in"]
    issuer.claims["nonce"] = asked["nonce"]

    answered = back(browser, state=asked["state"], code="good")
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../../../cli-login?nonce=a")
    assert "bea@example.org" in browser.get("/account").text
    (exchange,) = [each.form for each in server.seen if each.path == "/token"]
    made = urlsafe_b64encode(hashlib.sha256(exchange["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert (made, exchange["redirect_uri"]) == (asked["code_challenge"], CALLBACK)
    (entry,) = world.storage.audit.page(1, None).rows
    assert (entry.actor, entry.action) == ("bea@example.org", "authOidc")

    assert cookie
    assert "__Host-sign-in" not in browser.cookies
    assert refused(back(browser, state=asked["state"], code="good")), "a callback works once"


@pytest.mark.parametrize("settings", [HttpSettings(listen="127.0.0.1:8800")])
def test_the_way_there_and_back_is_at_one_host(world: World):
    """As installed, people may be at 127.0.0.1 or localhost, which have different cookies."""
    browser = Browser(world)
    assert 'href="http://localhost:8800/login/with/corp?next=/"' in browser.get("/login").text
    assert begun(browser)["redirect_uri"] == "http://localhost:8800/login/with/corp/callback"


def test_a_person_signs_in_with_google(world: World):
    browser = Browser(world)
    asked = begun(browser, "google")
    assert back(browser, "google", state=asked["state"], code="4/good").headers["Location"] == "./../../../"
    assert "bea@example.org" in browser.get("/account").text


def test_nobody_is_signed_in_as_somebody_else(world: World, issuer: ScriptedIssuer):
    """The attacker begins and sends the victim to the callback, who has begun nothing, or another sign-in."""
    attackers = begun(Browser(world))
    issuer.claims["nonce"] = attackers["nonce"]
    victim = Browser(world)
    assert refused(back(victim, state=attackers["state"], code="good"))
    begun(victim)
    assert refused(back(victim, state=attackers["state"], code="good"))
    assert refused(back(victim, code="good"))


def test_a_code_of_another_provider_is_not_taken(world: World, issuer: ScriptedIssuer):
    browser = Browser(world)
    asked = begun(browser)
    assert refused(back(browser, "google", state=asked["state"], code="4/good"))
    assert issuer.asked("/token") == 0


def test_an_answer_of_another_issuer_is_not_taken(world: World, issuer: ScriptedIssuer, server: LocalServer):
    """The code stays unused, so that the issuer that is asked cannot have it (RFC 9207)."""
    browser = Browser(world)
    asked = begun(browser)
    assert refused(back(browser, state=asked["state"], code="good", iss="https://evil.example"))
    assert issuer.asked("/token") == 0
    asked = begun(browser)
    issuer.claims["nonce"] = asked["nonce"]
    assert back(browser, state=asked["state"], code="good", iss=server.url).status_code == 303


def test_a_sign_in_ends_after_ten_minutes(world: World, clock: ManualClock):
    browser = Browser(world)
    asked = begun(browser)
    clock.advance(600)
    assert refused(back(browser, state=asked["state"], code="good"))


def test_a_forged_cookie_is_refused(world: World):
    browser = Browser(world)
    asked = begun(browser)
    browser.cookies["__Host-sign-in"] += "x"
    assert refused(back(browser, state=asked["state"], code="good"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("access_denied", "you did not agree at corp"),
        ("<script>", "corp sent no code."),
        ("server_error", "corp sent no code, but server_error"),
    ],
)
def test_a_refusal_of_the_provider_is_a_page(world: World, error: str, said: str):
    browser = Browser(world)
    answered = back(browser, state=begun(browser)["state"], error=error)
    assert refused(answered)
    assert said in answered.text
    assert "<script>" not in answered.text


def test_a_wrong_nonce_is_refused(world: World, issuer: ScriptedIssuer):
    browser = Browser(world)
    asked = begun(browser)
    issuer.claims["nonce"] = "another"
    answered = back(browser, state=asked["state"], code="good")
    assert answered.status_code == 502
    assert "__Host-session" not in answered.cookies


def test_who_may_not_sign_up_reads_so(open_world: Callable[..., World], issuer: ScriptedIssuer):
    browser = Browser(open_world(signup="closed", oidc={"corp": issuer.settings}))
    asked = begun(browser)
    issuer.claims["nonce"] = asked["nonce"]
    assert back(browser, state=asked["state"], code="good").status_code == 403


def test_an_unknown_provider_is_a_page(world: World):
    answered = Browser(world).get("/login/with/nobody")
    assert answered.status_code == 503
    assert "knows no identity provider nobody" in answered.text


@pytest.mark.parametrize("name", ["google", "github"])
def test_an_issuer_has_no_name_of_another_provider(issuer: ScriptedIssuer, name: str):
    with pytest.raises(ValueError, match="rename its section"):
        IdentitySettings(oidc={name: issuer.settings})
