"""The page on which a person hands a session to a command line."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlencode

import pytest

from tests.api.console.browser import Browser
from tests.api.console.test_account import actions
from tests.api.world import Account, World

NONCE = "a nonce of sixteen characters or more"
HASH = hashlib.sha256(NONCE.encode()).hexdigest()


def claimed(world: World) -> int:
    return world.anonymous.simulate_post("/api/v2/auth/cli/claim", json={"nonce": NONCE}).status_code


@pytest.mark.parametrize(
    ("query", "action", "performed"),
    [
        (f"nonce_hash={HASH}", "cli-login/transfer-v2", "cliTransferV2"),
        (f"nonce={NONCE.replace(' ', '+')}", "cli-login/transfer", "cliTransfer"),
    ],
)
def test_a_confirmed_command_line_claims_a_session(ada: Account, query: str, action: str, performed: str):
    browser = Browser.of(ada)
    page = f"/cli-login?{query}"
    fields = browser.fields(page, action)
    assert claimed(ada.world) == 400, "to load the page confirms nothing"
    assert browser.post(f"/{action}", {**fields, "form_token": "0" * 64}).status_code == 403
    assert claimed(ada.world) == 400
    answered = browser.post(f"/{action}", fields)
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../cli-login/done")
    assert actions(ada)[-1] == performed
    assert "close this page" in browser.get("/cli-login/done").text
    assert (claimed(ada.world), claimed(ada.world)) == (200, 400)


def test_a_code_is_shown_on_request(ada: Account):
    browser = Browser.of(ada)
    shown = browser.send("/cli-login", "cli-login/code")
    code = re.search(r'class="code">([0-9A-Z-]+)<', shown.text)
    assert code is not None
    redeemed = ada.world.anonymous.simulate_post("/api/v0/auth/cli/redeem", json={"code": code[1]})
    assert redeemed.status_code == 200
    assert "cliCode" in actions(ada)


def test_who_is_not_signed_in_comes_back_after_it(world: World, ada: Account):
    answered = Browser(world).get(f"/cli-login?nonce_hash={HASH}")
    assert answered.headers["Location"] == f"./login?next=%2Fcli-login%3Fnonce_hash%3D{HASH}"
    followed = Browser.of(ada).get(answered.headers["Location"].removeprefix("."))
    assert followed.headers["Location"] == f"./cli-login?nonce_hash={HASH}"


@pytest.mark.parametrize("nonce_hash", ["short", "A" * 64, "é" * 64, '"><script>'])
def test_a_wrong_nonce_is_refused(ada: Account, nonce_hash: str):
    browser = Browser.of(ada)
    fields = browser.fields(f"/cli-login?nonce_hash={HASH}", "cli-login/transfer-v2")
    answered = browser.post("/cli-login/transfer-v2", {**fields, "nonce_hash": nonce_hash})
    assert answered.status_code == 422
    assert "<script>" not in browser.ask("GET", "/cli-login", params={"nonce_hash": nonce_hash}).text


@pytest.mark.parametrize("nonce", [f"nonce_hash={HASH}", f"nonce={NONCE.replace(' ', '+')}"])
def test_the_browser_goes_back_to_a_listening_command_line(ada: Account, nonce: str):
    """It gets nothing there: the command line claims the session by its nonce."""
    browser, page = Browser.of(ada), f"/cli-login?port=43210&{nonce}"
    action = "cli-login/transfer-v2" if "hash" in nonce else "cli-login/transfer"
    answered = browser.send(page, action)
    assert (answered.status_code, answered.headers["Location"]) == (303, "http://localhost:43210/callback")
    assert claimed(ada.world) == 200
    policy = browser.get(page).headers["Content-Security-Policy"]
    assert "form-action 'self' http://localhost:43210;" in policy
    assert "localhost" not in browser.get("/cli-login").headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "port",
    [
        "",
        "0",
        "22",
        "1023",
        "65536",
        "-1",
        "+8000",
        "8000.example.org",
        "8000@example.org",
        "8000/",
        "\uff18000",
        "1e4",
        "x",
    ],
)
def test_no_port_leads_anywhere_else(ada: Account, port: str):
    browser = Browser.of(ada)
    page = f"/cli-login?{urlencode({'nonce_hash': HASH, 'port': port})}"
    assert "localhost" not in browser.get(page).headers["Content-Security-Policy"]
    answered = browser.send(page, "cli-login/transfer-v2", port=port)
    assert answered.headers["Location"] == "./../cli-login/done"


def test_a_port_survives_signing_in(world: World, ada: Account):
    query = f"port=43210&nonce_hash={HASH}"
    followed = Browser.of(ada).get(Browser(world).get(f"/cli-login?{query}").headers["Location"].removeprefix("."))
    assert followed.headers["Location"] == f"./cli-login?{query}"
