"""Live pages in many tabs of one browser, and behind a proxy that keeps answers."""

from __future__ import annotations

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.buffering_proxy import buffering_proxy
from tests.e2e.console.visitor import HELD, graph, let_go, visitor
from tests.e2e.daemon import Client, Pipeline
from tests.e2e.pipelines import one

TABS = 8
_HIDES = """let hidden = false;
Object.defineProperty(document, "hidden", {get: () => hidden});
window.hide = yes => { hidden = yes; document.dispatchEvent(new Event("visibilitychange")); };"""
"""Playwright shows every page as if it were looked at."""


def opened(context: BrowserContext, url: str) -> Page:
    """Open a tab behind the others: it was looked at, and is no more."""
    page = context.new_page()
    page.add_init_script(_HIDES)
    page.goto(url)
    return page


def hide(page: Page, *, yes: bool) -> None:
    page.evaluate("yes => window.hide(yes)", yes)


def test_a_tab_that_is_not_seen_takes_no_connection_from_others(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        number = int(pipeline.build(graph(HELD)).path.rpartition("/")[2])
        url = f"{ada.url}/{ada.org}/pipelines/{pipeline.slug}/builds/{number}"
        tabs = []
        for _ in range(TABS):
            page = opened(ada.page.context, url)
            expect(page.locator("#job-0 .state")).to_have_text("Running")
            hide(page, yes=True)
            tabs.append(page)
        let_go(pipeline, number, "build")
        expect(ada.open(f"/pipelines/{pipeline.slug}/builds/{number}").locator("#job-3 .state")).to_have_text("Skipped")
        for page in tabs:
            assert page.locator("#job-0 .state").inner_text() == "Running"
            hide(page, yes=False)
            expect(page.locator("#job-3 .state")).to_have_text("Skipped")
            expect(page.locator("#summary")).to_have_attribute("data-state", "failed")
            expect(page.get_by_role("button", name="Rebuild")).to_be_visible()


def test_a_log_that_is_not_seen_takes_no_connection_from_others(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        build = pipeline.build(one(f"echo begins; {HELD}; echo ends"))
        url = f"{ada.url}/{ada.org}/{build.path}/jobs/{build.job('only', 'running', 60)['id']}"
        tabs = []
        for _ in range(TABS):
            page = opened(ada.page.context, url)
            expect(page.locator(".line").last).to_contain_text("begins")
            hide(page, yes=True)
            tabs.append(page)
        let_go(pipeline, int(build.path.rpartition("/")[2]), "only")
        assert build.finish()["state"] == "passed"
        for page in tabs:
            assert "ends" not in page.locator(".line").last.inner_text()
            hide(page, yes=False)
            expect(page.locator(".line").last).to_contain_text("ends")


def test_a_build_is_followed_through_a_proxy_that_keeps_answers(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada, buffering_proxy(client.daemon.url) as proxy:
        number = int(pipeline.build(graph(HELD)).path.rpartition("/")[2])
        page = ada.page
        page.goto(f"{proxy}/{ada.org}/pipelines/{pipeline.slug}/builds/{number}")
        expect(page.locator("#job-0 .state")).to_have_text("Running")
        let_go(pipeline, number, "build")
        expect(page.locator("#job-3 .state")).to_have_text("Skipped")
        expect(page.locator("#summary")).to_have_attribute("data-state", "failed")
        expect(page.locator("#connection")).to_be_hidden()
        assert ada.faults == []
