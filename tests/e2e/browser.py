"""A headless browser, whose authenticator is in software."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

PAGE = Path(__file__).parents[1] / "data" / "passkeys.html"
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
"""The last one keeps all of its traffic on loopback."""

_LONGEST_WAIT = 30_000
"""Milliseconds that a page may take, as Playwright lets a press take: other tests run beside."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Debian's Chromium, which `make test` installs."""
    program = shutil.which("chromium")
    assert program is not None, "there is no chromium on the PATH: run `sudo apt-get install chromium`"
    expect.set_options(timeout=_LONGEST_WAIT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Person:
    """A person at a browser of their own, on a page that knows passkeys."""

    page: Page
    devtools: CDPSession
    authenticator: str

    @classmethod
    def at(cls, browser: Browser, url: str, protocol: str = "ctap2", **options: Any) -> Person:
        """Open the page below a URL, with an authenticator; ``options`` are those of the DevTools protocol."""
        page = browser.new_context().new_page()
        page.route("**/login/test", lambda route: route.fulfill(path=PAGE, content_type="text/html"))
        page.goto(f"{url}/login/test")
        page.wait_for_function("window.passkeys !== undefined")
        devtools = page.context.new_cdp_session(page)
        devtools.send("WebAuthn.enable")
        plugged = {"protocol": protocol, "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        chosen = {**plugged, "isUserVerified": True, "automaticPresenceSimulation": True, **options}
        made = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": chosen})
        return cls(page, devtools, made["authenticatorId"])

    def do(self, step: str, *fields: Any) -> dict[str, Any]:
        """Take a step of the page's; return its outcome."""
        call = f"fields => window.passkeys.{step}(...fields)"
        outcome: dict[str, Any] = self.page.evaluate(call, list(fields))
        return outcome

    def passkeys(self) -> list[dict[str, Any]]:
        """Return the passkeys in the authenticator."""
        found: list[dict[str, Any]] = self._ask("getCredentials")["credentials"]
        return found

    def forget(self) -> None:
        """Lose all passkeys."""
        self._ask("clearCredentials")

    def plug(self, passkey: dict[str, Any]) -> None:
        """Put a passkey into the authenticator, such as an old copy of one."""
        self._ask("addCredential", credential=passkey)

    def verify(self, *, succeeds: bool) -> None:
        """Let the authenticator recognize its user from now on, or not."""
        self._ask("setUserVerified", isUserVerified=succeeds)

    def _ask(self, method: str, **more: Any) -> dict[str, Any]:
        answered: dict[str, Any] = self.devtools.send(
            f"WebAuthn.{method}", {"authenticatorId": self.authenticator, **more}
        )
        return answered
