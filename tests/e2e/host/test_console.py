"""The console in a real browser, against the real daemon."""

from __future__ import annotations

import hashlib
import re
from contextlib import closing

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from storage import Storage, SystemClock
from tests.e2e.browser import Person
from tests.e2e.daemon import Client, Daemon


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0"}


@pytest.fixture(scope="module")
def url(daemon: Daemon) -> str:
    return daemon.url.replace("127.0.0.1", "localhost")


def owners_link(daemon: Daemon, url: str) -> str:
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        return f"{url}/login/owner#{storage.sign_in_links.owner()}"


def open_menu(page: Page) -> None:
    """Open the menu of the person who is signed in."""
    page.locator("header summary", has_text="You").click()


def sign_up(page: Page, link: str, email: str) -> None:
    page.goto(link)
    expect(page.get_by_role("button", name="Make a passkey")).to_be_enabled()
    assert page.url == link.partition("#")[0], "the token has left the address bar"
    page.get_by_label("Name").fill("Olga")
    page.get_by_label("E-mail address").fill(email)
    page.get_by_role("button", name="Make a passkey").click()
    expect(page.get_by_role("heading", name="Home", exact=True)).to_be_visible()
    open_menu(page)
    page.get_by_role("link", name="Account").click()
    expect(page.get_by_role("heading", name="Account", exact=True)).to_be_visible()


def sign_in(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("header summary", has_text="You")).to_be_visible()
    page.goto(f"{url.partition('/login')[0]}/account")


def test_an_owner_signs_up_signs_in_and_ends_sessions(daemon: Daemon, browser: Browser, url: str):
    person = Person.at(browser, url)
    page = person.page
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    sign_up(page, owners_link(daemon, url), "olga@example.org")
    (cookie,) = page.context.cookies(url)
    assert (cookie["name"], cookie["httpOnly"], cookie["secure"]) == ("__Host-session", True, True)
    # htmx notes the path of the page, once it has begun, which is all that scripts keep.
    assert page.evaluate("[document.cookie, localStorage.length]") == ["", 0]
    assert page.evaluate("Object.entries(sessionStorage)") in ([], [["htmx-current-path-for-history", "/"]])

    page.get_by_label("What the new key is for").fill("robot")
    page.get_by_role("button", name="Make an API key").click()
    key = page.get_by_label("robot").inner_text()
    assert httpx.get(f"{url}/api/v0/user", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    page.get_by_role("link", name="Done").click()

    page.get_by_role("main").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    page.goto(f"{url}/account")
    assert page.url == f"{url}/login?next=/account"
    sign_in(page, page.url)

    second = Person.at(browser, url)
    second.plug(person.passkeys()[0] | {"signCount": person.passkeys()[0]["signCount"] + 10})
    sign_in(second.page, f"{url}/login")
    page.reload()
    page.get_by_role("button", name=re.compile("End the session")).first.click()
    expect(page.get_by_role("button", name=re.compile("End the session"))).to_have_count(0)
    second.page.reload()
    expect(second.page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()

    assert faults == []
    actions = [entry["action"] for entry in daemon.json("audit", "--limit", "100")]
    performed = {
        "passkeySignupFinalize",
        "createApiToken",
        "logout",
        "passkeyLoginFinalize",
        "endSession",
    }
    assert performed <= set(actions)


def test_an_account_serves_a_command_line_and_is_closed(daemon: Daemon, browser: Browser, url: str):
    person = Person.at(browser, url)
    page = person.page
    sign_up(page, owners_link(daemon, url), "eve@example.org")
    nonce = "a nonce of a command line"
    page.goto(f"{url}/cli-login?nonce_hash={hashlib.sha256(nonce.encode()).hexdigest()}")
    expect(page.get_by_text("wants to sign in as eve@example.org")).to_be_visible()
    page.get_by_role("button", name="Sign in the command line").click()
    expect(page.get_by_role("heading", name="The command line is signed in")).to_be_visible()
    claimed = httpx.post(f"{url}/api/v2/auth/cli/claim", json={"nonce": nonce})
    session = {"Authorization": f"Bearer {claimed.json()['token']}"}
    assert httpx.get(f"{url}/api/v0/user", headers=session).json()["email"] == "eve@example.org"
    assert httpx.post(f"{url}/api/v0/auth/logout", headers=session).status_code == 204

    page.goto(f"{url}/account")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("alert").filter(has_text="has a passkey of the account already")).to_be_visible()
    key = Person.at(browser, url, transport="usb")
    key.page.context.add_cookies(page.context.cookies())
    key.page.goto(f"{url}/account")
    key.page.get_by_label("Name of a new passkey").fill("Key")
    key.page.get_by_role("button", name="Add a passkey").click()
    expect(key.page.get_by_role("button", name=re.compile("Delete the passkey Key"))).to_be_visible()
    page.reload()
    page.get_by_role("button", name=re.compile("Delete the passkey Key")).click()
    expect(page.get_by_role("button", name=re.compile("Delete the passkey"))).to_have_count(1)

    page.get_by_label("Type eve@example.org to confirm").fill("eve@example.org")
    page.get_by_role("button", name="Close the account").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    assert "__Host-session" not in {cookie["name"] for cookie in page.context.cookies(url)}

    actions = [entry["action"] for entry in daemon.json("audit", "--limit", "100")]
    assert {"cliTransferV2", "passkeyRegisterFinalize", "deletePasskey", "deleteCurrentUser"} <= set(actions)


def test_an_invite_survives_the_sign_in(daemon: Daemon, browser: Browser, url: str):
    person = Person.at(browser, url)
    page = person.page
    sign_up(page, owners_link(daemon, url), "guest@example.org")
    page.get_by_role("main").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    host = Client.create(daemon, "host@example.org")
    body = {"email": "guest@example.org", "role": "member"}
    token = host.request("POST", "invites", json=body).json()["token"]

    page.goto(f"{url}/invites#{token}")
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.get_by_role("button", name="Accept the invite").click()
    expect(page.get_by_role("heading", name="You are a member")).to_be_visible()


def test_a_used_link_says_so_in_words(daemon: Daemon, browser: Browser, url: str):
    page = Person.at(browser, url).page
    page.goto(f"{url}/login/recover#unknown")
    page.get_by_role("button", name="Make a passkey").click()
    expect(page.get_by_role("alert").filter(has_text="unknown, used or expired")).to_be_visible()
    page.reload()
    expect(page.get_by_role("alert").filter(has_text="has no link any more")).to_be_visible()


def test_a_browser_without_the_passkey_is_refused(browser: Browser, url: str):
    page = Person.at(browser, url).page
    page.goto(f"{url}/login")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert").filter(has_text="no passkey for this service")).to_be_visible()


def test_at_another_address_the_page_leads_to_the_right_one(daemon: Daemon, browser: Browser, url: str):
    page = browser.new_context().new_page()
    page.goto(f"{daemon.url}/login/recover#abc")
    expect(page.get_by_role("button", name="Make a passkey")).to_be_disabled()
    page.get_by_role("link", name=url).click()
    expect(page.get_by_role("button", name="Make a passkey")).to_be_enabled()
    assert page.url == f"{url}/login/recover"


def test_without_scripts_the_pages_say_what_needs_them(browser: Browser, url: str):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{url}/login")
    expect(page.get_by_text("Passkeys need JavaScript")).to_be_visible()


def test_the_reference_asks_the_address_of_its_page(browser: Browser, url: str):
    """The document names 127.0.0.1, which the page may not ask if it is at localhost."""
    page = browser.new_context().new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(f"{url}/docs/api")
    expect(page.locator(".servers option")).to_have_text(url)
    ping = "address => fetch(`${address}/api/v0/ping`).then(answer => answer.status)"
    assert page.evaluate(ping, url) == 200
    assert faults == []
