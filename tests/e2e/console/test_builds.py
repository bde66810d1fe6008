"""The console's pages of builds in a real browser, against the real daemon."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Browser, expect

from tests.e2e.console.visitor import HELD, graph, let_go, visitor
from tests.e2e.daemon import Client, Daemon, Pipeline

HOSTILE = "<img src=x onerror=document.title='owned'>"


def submit(pipeline: Pipeline, ir: str | None = None, **fields: str) -> int:
    """Begin a build, by default of a graph; return its number."""
    return int(pipeline.build(ir or graph(), **fields).path.rpartition("/")[2])


def script(*commands: str) -> str:
    steps = [{"type": "command", "key": f"s{n}", "label": f"Step {n}", "cmd": cmd} for n, cmd in enumerate(commands)]
    return json.dumps({"version": "0", "steps": steps})


def test_a_build_is_followed_to_its_end(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        number = submit(pipeline, graph(HELD), message="Speed up the tests")
        page = ada.open(f"/pipelines/{pipeline.slug}/builds/{number}")
        expect(page.get_by_role("heading", level=1)).to_have_text(f"#{number} Speed up the tests")
        expect(page.locator("#job-0 .state")).to_have_text("Running")
        let_go(pipeline, number, "build")
        expect(page.locator("#job-2 .state")).to_have_text("Failed")
        expect(page.locator("#job-2 .detail")).to_have_text("exit code 3")
        expect(page.locator("#job-3 .state")).to_have_text("Skipped")
        expect(page.locator("#summary")).to_contain_text("4 of 4 done, 1 failed")
        expect(page.locator("#announcement")).to_contain_text("Failed")
        expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
        page.get_by_role("link", name="Graph").click()
        expect(page.locator(".node[data-state=failed]")).to_contain_text("Unit tests")
        page.get_by_role("link", name="Time line").click()
        expect(page.get_by_role("img", name=re.compile("running"))).to_have_count(3)
        page.goto(f"{ada.url}/")
        page.get_by_role("link", name="Speed up the tests").first.click()
        ada.send("Rebuild")
        assert page.url.endswith(f"/builds/{number + 1}")
        ada.send("Cancel")
        expect(page.locator("#summary")).to_have_attribute("data-state", "canceled")
        assert ada.faults == []


def test_a_page_of_a_thousand_jobs_bears_a_change_of_all(browser: Browser, client: Client, pipeline: Pipeline):
    steps = [{"key": f"k{n}", "label": f"Step {n}", "cmd": HELD if n == 0 else "true"} for n in range(1000)]
    nodes, edges = [{"step": step, "env": {}} for step in steps], [[0, n, "depends_on"] for n in range(1, 1000)]
    with visitor(browser, client) as ada:
        build = pipeline.build(json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}}))
        page = ada.open(f"/pipelines/{pipeline.slug}/builds/{build.path.rpartition('/')[2]}")
        expect(page.locator("#job-0 .state")).to_have_text("Running")
        page.locator("#job-998 a").focus()
        canceled = client.request("PUT", f"{build.path}/cancel")
        assert canceled.status_code in {200, 503}  # 503: it is recorded, and takes longer than a caller waits
        expect(page.locator("#job-999 .state")).to_have_text("Canceled")
        expect(page.locator("#summary")).to_have_attribute("data-state", "canceled")
        expect(page.locator("#job-998 a")).to_be_focused()
        assert ada.faults == []


def test_the_graph_changes_while_it_is_looked_at(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        number = submit(pipeline, graph(HELD))
        page = ada.open(f"/pipelines/{pipeline.slug}/builds/{number}?view=graph")
        expect(page.locator(".node", has_text="Build")).to_have_attribute("data-state", "running")
        let_go(pipeline, number, "build")
        expect(page.locator(".node", has_text="Unit tests")).to_have_attribute("data-state", "failed")
        expect(page.locator(".node", has_text="Unit tests").locator(".sign")).to_have_text("✗")
        page.get_by_role("button", name="Zoom in").click()
        before = page.locator(".graph svg").get_attribute("viewBox")
        page.get_by_role("button", name="Whole graph").click()
        assert page.locator(".graph svg").get_attribute("viewBox") != before
        page.locator(".graph").focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('class')").startswith("node")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Build", exact=True)).to_be_visible()


def test_a_log_is_followed_and_searched(browser: Browser, client: Client, pipeline: Pipeline):
    log = (
        f"for i in $(seq 1 3000); do echo \"line $i\"; done; {HELD}; printf '10%%\\r100%%\\n';"
        r" printf '\033[38;2;10;200;30mgreen\033[0m \033[1;31mred\033[0m\n'; echo '::group::Inner'; echo hidden;"
        " echo '::endgroup::'; echo '::group::Last'; echo shown; echo '::endgroup::'; echo \"<b>end</b>\""
    )
    with visitor(browser, client) as ada:
        number = submit(pipeline, script(log))
        page = ada.open(f"/pipelines/{pipeline.slug}/builds/{number}")
        page.get_by_role("link", name="Step 0").click()
        expect(page.locator(".line").last).to_contain_text("line 3000")
        follow = page.get_by_role("button", name="Follow")
        page.locator(".log-frame").focus()
        for key, followed in (("PageUp", "false"), ("End", "true")):
            page.keyboard.press(key)
            expect(follow).to_have_attribute("aria-pressed", followed)
        let_go(pipeline, number, "s0")
        expect(page.locator(".line").last).to_contain_text("<b>end</b>")
        expect(page.get_by_text("3,009 lines.")).to_be_visible()
        assert page.locator(".line").count() < 100
        expect(page.locator("#L3001 .text")).to_have_text("100%")
        assert page.locator("#L3002 span[style]").evaluate("each => each.style.color") == "rgb(10, 200, 30)"
        expect(page.locator("#L3002 .fg-1.bold")).to_have_text("red")
        expect(page.get_by_text("hidden", exact=True)).to_have_count(0)
        page.get_by_role("button", name="Inner").click()
        expect(page.locator("#L3004 .text")).to_have_text("hidden")

        page.get_by_role("main").get_by_role("searchbox").fill("LINE 29")
        page.keyboard.press("Enter")
        expect(page.get_by_text("1 of 111 lines")).to_be_visible()
        expect(page.locator(".line.current .text")).to_have_text("line 29")
        page.keyboard.press("Enter")
        expect(page.locator(".line.current .text")).to_have_text("line 290")

        page.locator(".log-frame").focus()
        page.keyboard.press("Home")
        page.locator("#L2 a").click()
        page.locator("#L4 a").click(modifiers=["Shift"])
        expect(page).to_have_url(re.compile("#L2-L4$"))
        page.reload()
        expect(page.locator(".line.chosen")).to_have_count(3)
        page.get_by_role("button", name="Times").click()
        expect(page.locator("#L2 time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d\.\d\d\d"))
        # A browser reports that a log which was waited for has no more bytes.
        assert [fault for fault in ada.faults if "416" not in fault] == []


def test_a_log_that_failed_opens_at_its_end(browser: Browser, client: Client, pipeline: Pipeline):
    """Addresses are links, words that are found are marked, and the title of a group stays in view."""
    log = (
        "echo '::group::Set up'; seq 300; echo '::endgroup::'; echo '::group::Tests'; for i in $(seq 300);"
        " do echo \"case $i of https://ci.example.org/cases/$i?a=<b>.\"; done; echo '::endgroup::'; exit 1"
    )
    with visitor(browser, client) as ada:
        build = pipeline.build(script(log))
        assert build.finish()["state"] == "failed"
        page = ada.page
        page.goto(f"{ada.url}/{ada.org}/{build.path}/jobs/{build.jobs()['s0']['id']}")
        expect(page.locator(".line").last).to_be_visible()
        expect(page.locator("#L602 .text")).to_contain_text("case 299")
        expect(page.locator(".log-sticky")).to_contain_text("Tests")
        link = page.locator("#L602 a[target]")
        expect(link).to_have_attribute("href", "https://ci.example.org/cases/299?a=")
        expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
        frame = page.locator(".log-frame").bounding_box()
        assert frame is not None
        assert frame["y"] + frame["height"] <= 900
        page.keyboard.press("/")
        page.keyboard.type("CASE 7 ")
        page.keyboard.press("Enter")
        expect(page.locator(".line.current .text")).to_contain_text("case 7 of")
        assert page.evaluate("[...CSS.highlights.get('found')].map(String)") == ["case 7 "]
        page.get_by_role("button", name="Full screen").click()
        page.keyboard.press("f")
        expect(page.locator("#L603 .text")).to_contain_text("case 300")
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Full screen")).to_have_attribute("aria-pressed", "false")
        assert ada.faults == []


def test_keys_lead_from_job_to_job(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        build = pipeline.build(graph())
        build.finish()
        page = ada.open(f"/{build.path}")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("the next job")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator(".bar time")).to_have_text(re.compile("just now|min ago"))
        page.get_by_role("link", name=re.compile("Open at line")).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Unit tests")
        expect(page.locator(".line.chosen .text")).to_have_text("1 failed")
        page.keyboard.press("k")
        expect(page.get_by_role("heading", level=1)).to_have_text("Build")
        page.keyboard.press("j")
        expect(page.get_by_role("heading", level=1)).to_have_text("Unit tests")
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(page.get_by_role("heading", level=1)).to_have_text("Home")
        assert ada.faults == []


def test_the_failing_line_is_one_press_from_home(browser: Browser, client: Client, pipeline: Pipeline):
    """The tab says that it failed, too."""
    with visitor(browser, client) as ada:
        pipeline.build(graph(), message="Answer faster").finish()
        page = ada.page
        page.goto(f"{ada.url}/")
        page.locator(".broken").get_by_role("link", name="Answer faster").click()
        expect(page.locator(".failed-job .output b")).to_have_text("1 failed")
        expect(page.locator(".failed-job .output b")).to_be_in_viewport()
        expect(page).to_have_title(re.compile("^✗ Answer faster"))
        expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("#failed$"))
        assert ada.faults == []


def test_a_theme_is_chosen_with_scripts_and_without(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        page = ada.open(f"/pipelines/{pipeline.slug}")
        body = page.locator("body")
        page.locator(".menu summary").last.click()
        with page.expect_response(re.compile("/console/theme")):
            page.get_by_role("button", name="Dark").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 25)"
        page.reload()
        expect(body).to_have_css("background-color", "rgb(18, 21, 25)")
        cookies = page.context.cookies()
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(f"{ada.url}/{client.org}")
    page.locator(".menu summary").last.click()
    page.get_by_role("button", name="Light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.url.endswith(f"/{client.org}")
    context.close()


def test_hostile_texts_stay_texts(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        number = submit(
            pipeline,
            script(f"echo \"{HOSTILE}\"; printf '\\033]0;x\\007\\033[2J\\0end\\n'"),
            message=HOSTILE,
            branch=HOSTILE,
        )
        page = ada.open(f"/pipelines/{pipeline.slug}/builds/{number}")
        expect(page.locator("#summary")).to_have_attribute("data-state", "passed")
        page.get_by_role("link", name="Step 0").click()
        expect(page.locator("#L1 .text")).to_have_text(HOSTILE)
        expect(page.locator("#L2 .text")).to_have_text("end")
        ada.open(f"/pipelines/{pipeline.slug}")
        expect(page.locator("#builds img")).to_have_count(0)
        assert "owned" not in page.title()
        assert ada.faults == []


def test_a_restart_is_said_and_survived(daemon: Daemon, browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        number = submit(pipeline, script(HELD))
        page = ada.open(f"/pipelines/{pipeline.slug}/builds/{number}")
        expect(page.locator("#job-0 .state")).to_have_text("Running")
        address = daemon.url.removeprefix("http://")
        assert daemon.stop() == 0
        expect(page.locator("#connection")).to_be_visible()
        daemon.start(CI_DAEMON_HTTP_LISTEN=address)
        let_go(pipeline, number, "s0")
        expect(page.locator("#summary")).to_have_attribute("data-state", "passed")
        expect(page.locator("#connection")).to_be_hidden()


def test_pages_have_no_barriers(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client, bypass_csp=True) as ada:
        page, found = ada.page, {}
        above = f"/pipelines/{pipeline.slug}"

        def check(*paths: str) -> None:
            for path in paths:
                page.goto(f"{ada.url}{path}")
                found[path] = ada.barriers()

        check("/", f"/{ada.org}", f"/{ada.org}{above}")
        build = f"{above}/builds/{submit(pipeline, message='A_long_word_' * 20, branch='a/long/branch/' * 10)}"
        expect(ada.open(build).locator("#summary")).to_have_attribute("data-state", "failed")
        page.get_by_text("2 passed").click()
        page.get_by_role("link", name="Lint").click()
        expect(page.locator(".line").first).to_be_visible()
        found["log"] = ada.barriers()
        check("/", *(f"/{ada.org}{build}?view={view}" for view in ("jobs", "graph", "time", "tests", "artifacts")))
        check(*(f"/{ada.org}{each}" for each in (above, f"{above}/settings", "/pipelines/none")))
        check("/account", "/invites", "/cli-login")
        assert {path: each for path, each in found.items() if each} == {}


def test_without_scripts_every_page_reads(browser: Browser, client: Client, pipeline: Pipeline):
    number = submit(pipeline)
    with visitor(browser, client) as ada:
        above = f"/pipelines/{pipeline.slug}"
        build = f"{above}/builds/{number}"
        expect(ada.open(build).locator("#summary")).to_have_attribute("data-state", "failed")
        runs = submit(pipeline, script(HELD))
        expect(ada.open(f"{above}/builds/{runs}").locator("#job-0 .state")).to_have_text("Running")
        cookies = ada.page.context.cookies()
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 780})
    context.add_cookies(cookies)
    page = context.new_page()
    url = f"{client.daemon.url.replace('127.0.0.1', 'localhost')}/{client.org}"
    for path in ("/../", "", above, f"{above}/settings", f"{above}/builds/{runs}", f"{build}?view=time", "/billing"):
        page.goto(f"{url}{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    page.goto(f"{url}{build}?view=graph")
    expect(page.get_by_role("link", name="Unit tests")).to_be_visible()
    page.goto(f"{url}{build}")
    page.get_by_role("link", name="Unit tests").click()
    expect(page.get_by_text("1 failed", exact=True)).to_be_visible()
    context.close()
    let_go(pipeline, runs, "s0")


def test_a_form_survives_the_end_of_its_session(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        page = ada.open(f"/pipelines/{pipeline.slug}/settings")
        page.get_by_label("Description").fill("A long text that nobody types twice")
        page.context.clear_cookies()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("nothing was sent")
        expect(page.get_by_label("Description")).to_have_value("A long text that nobody types twice")
        ada.sign_in(client)
        ada.send("Save")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_label("Description")).to_have_value("A long text that nobody types twice")
        assert client.get(f"pipelines/{pipeline.slug}")["description"] == "A long text that nobody types twice"
