"""Signing in on the pages with a real OpenID Connect issuer, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.sign_in.real_issuer import CLIENT, running_issuer
from tests.e2e.daemon import Daemon
from tests.ports import reserved_port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The issuer's port; it starts after the daemon, whose page it must know."""
    with reserved_port() as port:
        yield port


@pytest.fixture(scope="module")
def settings(port: int) -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_IDENTITY_OIDC_CORP_ISSUER": f"http://127.0.0.1:{port}",
        "CI_DAEMON_IDENTITY_OIDC_CORP_CLIENT_ID": str(CLIENT["client_id"]),
        "CI_DAEMON_IDENTITY_OIDC_CORP_CLIENT_SECRET": str(CLIENT["client_secret"]),
    }


@pytest.fixture
def pages(daemon: Daemon, port: int) -> Iterator[str]:
    """The address of the daemon's pages, to which the issuer sends people back."""
    pages = daemon.url.replace("127.0.0.1", "localhost")
    client = {**CLIENT, "redirect_uris": [f"{pages}/login/with/corp/callback"]}
    bea = {"email": "bea@example.org", "email_verified": True, "name": "Bea"}
    daemon.add_user("bea@example.org", 0)
    with running_issuer({"bea": bea}, (client,), port=port):
        yield pages


def at_the_issuer(browser: Browser, url: str) -> Page:
    """Go to the issuer from the login page at an address, as somebody who is new to the browser."""
    page = browser.new_context().new_page()
    page.goto(f"{url}/login")
    page.get_by_role("link", name="Continue with corp").click()
    return page


def test_a_person_signs_in_from_either_address_of_this_host(daemon: Daemon, browser: Browser, pages: str):
    for url in (pages, daemon.url):
        page = at_the_issuer(browser, url)
        page.fill("input[name=login]", "bea")
        page.fill("input[name=password]", "any")
        page.get_by_role("button").click()
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url(f"{pages}/**")
        page.goto(f"{pages}/account")
        expect(page.get_by_role("main").get_by_text("bea@example.org").first).to_be_visible()
    page = at_the_issuer(browser, pages)
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_text("you did not agree at corp")).to_be_visible()
    noted = daemon.json("audit", "--action", "authOidc")
    assert [entry["actor"] for entry in noted] == ["nobody", "bea@example.org", "bea@example.org"]
