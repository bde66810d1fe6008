"""Terminals in a browser: opened from a failed job's page, and what a program cannot do to the page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.console.visitor import Visitor, visitor
from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.pipelines import one

ATTACK = r"""printf '\e]0;owned\a\e]2;owned\a\e]52;c;b3duZWQ=\a<b id=owned>\e[38;2;1;2;3mcolours\e[m\n'"""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture
def ada(browser: Browser, daemon: Daemon, client: Client, pipeline: Pipeline) -> Iterator[Visitor]:
    """Somebody at the page of a failed job."""
    build = pipeline.build(one("echo hello >made; exit 3"))
    build.finish()
    with visitor(browser, client) as ada:
        ada.open(f"/{build.path}/jobs/{build.jobs()['only']['id']}")
        yield ada
    daemon.end_vms()


def screen(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".xterm-rows")).to_contain_text(text)


def run(page: Page, line: str) -> None:
    page.keyboard.type(line)
    page.keyboard.press("Enter")


def test_a_terminal_from_the_page_of_a_failure(ada: Visitor):
    """It goes on after the page is loaded anew, and what its program prints does nothing to the page."""
    page = ada.page
    ada.send("Open a terminal")
    screen(page, "# ")
    run(page, "cat made; stty size; export KEPT=still")
    screen(page, re.compile(r"hello\s*[1-9]\d 1\d\d"))
    title = page.title()
    run(page, ATTACK)
    screen(page, "<b id=owned>colours")
    assert (page.title(), page.locator("#owned").count()) == (title, 0)
    page.go_back()
    page.reload()
    page.get_by_role("link", name="since").click()
    screen(page, "hello")
    run(page, "echo $KEPT-here; yes | head -c 300000 | tail -c 2; echo $((6*7))")
    screen(page, "still-here")
    screen(page, "42")
    run(page, "exit 5")
    expect(page.get_by_role("status")).to_have_text("The shell has ended with exit code 5.")
    expect(page.get_by_role("button", name="Close")).to_be_hidden()
    ada.send("… before its command")
    screen(page, "# ")
    run(page, "ls | wc -l")
    screen(page, re.compile(r"wc -l\s*0"))
    ada.send("Close")
    expect(page.get_by_role("button", name="Open a terminal")).to_be_visible()
    assert ada.faults == []


def test_a_terminal_takes_keys_of_its_own_page_alone(ada: Visitor, daemon: Daemon, client: Client):
    """A form of another site has no token of the page's, and closes, types and opens nothing."""
    page = ada.page
    ada.send("Open a terminal")
    screen(page, "# ")
    session = next(each["value"] for each in page.context.cookies() if each["name"] == "__Host-session")
    for below, fields in (
        ("/input", {"at": "0", "data": "dG91Y2ggL293bmVkDQ=="}),
        ("/size", {"columns": "1", "rows": "1"}),
        ("/close", {}),
    ):
        url = page.url.replace("localhost", "127.0.0.1") + below
        answered = httpx.post(url, data={**fields, "form_token": "guessed"}, cookies={"__Host-session": session})
        assert answered.status_code == 403
        assert "this form was not made for your browser" in answered.text
    run(page, "ls -d /owned || echo nothing")
    screen(page, "nothing")
    ada.send("Close")


def test_a_terminal_ends_with_its_session(ada: Visitor, client: Client):
    """The page says so, and the VM is gone."""
    page = ada.page
    ada.send("Open a terminal")
    screen(page, "# ")
    session = next(each["value"] for each in page.context.cookies() if each["name"] == "__Host-session")
    out = {"Authorization": f"Bearer {session}"}
    assert httpx.post(f"{client.daemon.url}/api/v0/auth/logout", headers=out).status_code == 204
    expect(page.get_by_role("status")).to_contain_text("The terminal has ended", timeout=5000)
    client.daemon.wait_until_idle()
    assert client.daemon.vms() == []


def test_the_page_of_a_terminal_has_no_barriers(browser: Browser, daemon: Daemon, client: Client, pipeline: Pipeline):
    build = pipeline.build(one("exit 3"))
    build.finish()
    with visitor(browser, client, bypass_csp=True) as ada:
        ada.open(f"/{build.path}/jobs/{build.jobs()['only']['id']}")
        ada.send("Open a terminal")
        screen(ada.page, "# ")
        assert ada.barriers() == []
        ada.send("Close")
    daemon.end_vms()
