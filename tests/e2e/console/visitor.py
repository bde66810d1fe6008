"""A person at a browser who is signed in to the console, and pages that this person opens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Locator, Page

from tests.e2e.daemon import Client, Pipeline

_AXE = Path(__file__).parents[3] / ".run" / "test-programs" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RULES_OF_COLOR = ["color-contrast", "link-in-text-block"]
_WIDTHS = (1920, 360)

HELD = "until [ -e go ]; do sleep 0.1; done"
"""A command that lasts until `let_go`, so that its job can be seen running."""


def graph(build: str = "echo built") -> str:
    """Return a pipeline of four jobs, of which one fails and one is skipped.

    ``build`` is the command of the first.
    """
    return json.dumps(
        {
            "version": "0",
            "graph": {
                "nodes": [
                    {"step": {"key": "build", "cmd": build, "label": "Build"}, "env": {}},
                    {"step": {"key": "lint", "cmd": r"printf '\033[32mclean\033[0m\n'", "label": "Lint"}, "env": {}},
                    {"step": {"key": "unit", "cmd": "echo '1 failed' >&2; exit 3", "label": "Unit tests"}, "env": {}},
                    {"step": {"key": "ship", "cmd": "true", "label": "Ship"}, "env": {}},
                ],
                "edges": [[0, 2, "builds_in"], [1, 3, "depends_on"], [2, 3, "depends_on"]],
            },
        }
    )


def let_go(pipeline: Pipeline, number: int, step: str) -> None:
    """End the command of a running job that is `HELD`."""
    build = f"{pipeline.client.org}/{pipeline.slug}/{number}"
    done = pipeline.client.daemon.command("debug", build, step, "--", "touch", "go", check=False)
    # The job may end, and its VM with it, before the end of `touch` is heard.
    assert done.returncode == 0 or "the connection to the VM is lost" in done.stderr, done.stderr


@dataclass
class Visitor:
    """A browser of its own, with a session; ``faults`` are the errors that its pages report."""

    page: Page
    url: str
    org: str
    faults: list[str] = field(default_factory=list)

    def sign_in(self, client: Client) -> None:
        """Begin a session of the client's user, in whatever page is open."""
        self.page.evaluate(
            "([url, token]) => fetch(url, {method: 'POST', headers: {Authorization: `Bearer ${token}`}})",
            [f"{self.url}/login/session", client.session()],
        )

    def send(self, button: str | Locator) -> None:
        """Press the button of a form, and wait for the page that answers it: until then the old one is there."""
        pressed = self.page.get_by_role("button", name=button) if isinstance(button, str) else button
        pressed.wait_for()
        self.page.wait_for_load_state()  # a link may have led here just now
        with self.page.expect_navigation():
            pressed.click()

    def open(self, path: str = "") -> Page:
        """Go to a page below the organization's."""
        self.page.goto(f"{self.url}/{self.org}{path}")
        return self.page

    def barriers(self) -> list[str]:
        """Return what axe finds wrong on the page in both themes, and the windows that it is too wide for."""
        assert _AXE.exists(), "there is no axe-core: run `make .run/test-programs/axe/.complete`"
        self.page.add_script_tag(path=str(_AXE))
        found = self._violations("tag", _RULES)
        self.page.emulate_media(color_scheme="dark")
        found += self._violations("rule", _RULES_OF_COLOR)
        self.page.emulate_media(color_scheme="light")
        for width in _WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            if (wide := self.page.evaluate("document.documentElement.scrollWidth")) > width:
                found.append(f"{wide} pixels wide in a window of {width}")
        return found

    def _violations(self, kind: str, rules: list[str]) -> list[str]:
        found: dict[str, Any] = self.page.evaluate(
            "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", {"type": kind, "values": rules}
        )
        return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


@contextmanager
def visitor(
    browser: Browser,
    client: Client,
    *,
    width: int = 1280,
    theme: Literal["light", "dark"] = "light",
    bypass_csp: bool = False,
) -> Iterator[Visitor]:
    """Open a browser in which the client's user is signed in."""
    url = client.daemon.url.replace("127.0.0.1", "localhost")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=bypass_csp, reduced_motion="reduce"
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    try:
        page.goto(f"{url}/login")
        ada = Visitor(page, url, client.org, faults)
        ada.sign_in(client)
        yield ada
    finally:
        context.close()
