"""The console's pages of artifacts and tests in a real browser, with hostile files."""

from __future__ import annotations

import json

from playwright.sync_api import Browser, expect

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


SITE = """mkdir -p site
cat > site/index.html <<'X'
<link rel="stylesheet" href="style.css"><p id="styled">styled</p><pre id="found"></pre>
<script type="module">
import {answer} from "./module.js";
const found = {origin: self.origin, answer};
async function attempt(name, act) {
    try { found[name] = await act(); } catch (error) { found[name] = `refused: ${error.name}`; }
}
await attempt("cookie", () => document.cookie);
await attempt("storage", () => localStorage.length);
await attempt("account", async () => (await fetch("/account", {credentials: "include"})).text());
await attempt("api", async () => (await fetch("/api/v0/user", {credentials: "include"})).text());
await attempt("opener", () => window.opener.document.title);
document.title = "done";
document.getElementById("found").textContent = JSON.stringify(found);
</script>
X
echo 'export const answer = 42;' > site/module.js
echo '#styled { color: rgb(1, 2, 3) }' > site/style.css
"""


def test_a_site_runs_its_scripts_and_reaches_nothing(browser: Browser, client: Client, pipeline: Pipeline):
    build = pipeline.build(one(SITE, runner_args={"artifacts": ["site/**"]}))
    assert build.finish()["state"] == "passed", build.jobs()
    with visitor(browser, client) as ada:
        page = ada.open(f"/{build.path}?view=artifacts")
        page.get_by_role("link", name="index.html", exact=True).click()
        page.get_by_role("link", name="Look at it").click()
        expect(page).to_have_title("done")
        found = json.loads(page.locator("#found").inner_text())
        assert (found["origin"], found["answer"]) == ("null", 42)
        expect(page.locator("#styled")).to_have_css("color", "rgb(1, 2, 3)")
        assert found["cookie"] == "refused: SecurityError"
        assert found["storage"] == "refused: SecurityError"
        assert found["account"] == found["api"] == "refused: TypeError"
        assert found["opener"].startswith("refused")
