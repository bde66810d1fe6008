"""The console's pages of artifacts and tests in a real browser, with hostile files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.browser import chromium
from tests.e2e.console.visitor import visitor
from tests.e2e.daemon import Client, Pipeline
from tests.e2e.pipelines import one

SCRIPT = "document.title=42"
KEEP = f"""mkdir -p 'out/<img src=x onerror={SCRIPT}>'
cat > out/logo.svg <<X
<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="{SCRIPT}"><script>{SCRIPT}</script></svg>
X
echo "<script>{SCRIPT}</script>" > 'out/<img src=x onerror={SCRIPT}>/page.html'
cat > out/report.xml <<X
<testsuite name="&lt;b&gt;"><testcase name="&lt;script&gt;{SCRIPT}&lt;/script&gt;">$RESULT</testcase></testsuite>
X
"""
FAILED = f"<failure>&lt;img src=x onerror={SCRIPT}&gt;</failure>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_hostile_files_are_shown_and_run_nothing(browser: Browser, client: Client, pipeline: Pipeline):
    for result in ("", FAILED):
        build = pipeline.build(
            one(f"RESULT={result!r}\n{KEEP}", runner_args={"artifacts": ["out/**"]}), commit="c0ffee"
        )
        assert build.finish()["state"] == "passed", build.jobs()
    with visitor(browser, client, bypass_csp=True) as ada:
        page = ada.open(f"/{build.path}?view=tests")
        expect(page.get_by_role("heading", name="Flaky")).to_be_visible()
        assert ada.barriers() == []
        ada.open(f"/{build.path}?view=artifacts")
        expect(page.get_by_text(f"<img src=x onerror={SCRIPT}>")).to_be_visible()
        assert ada.barriers() == []
        page.get_by_role("link", name="page.html", exact=True).click()
        expect(page.get_by_text(f"<script>{SCRIPT}</script>")).to_be_visible()
        assert ada.barriers() == []
        page.get_by_role("link", name="All artifacts").click()
        page.get_by_role("link", name="logo.svg", exact=True).click()
        expect(page.get_by_role("img", name="logo.svg")).to_have_js_property("naturalWidth", 40)
        assert ada.barriers() == []
        assert ada.faults == []
        assert page.title() != "42"
        image = page.url + "/image"
    with visitor(browser, client) as ada:
        ada.page.goto(image)
        assert ada.page.evaluate("document.title") != "42"
