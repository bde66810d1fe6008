"""Every page of the console: its policy, its errors, and texts of others on it."""

from __future__ import annotations

import html
import re

import pytest

from storage import Role
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, PipelinePath, World

BY_BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
}
LOGIN = ("/login", "/login/verify", "/login/recover", "/login/owner", "/login/sent")
PIPELINE = "/ada-example-org/pipelines/demo"
OF_ORGANIZATION = ("", "/insights", "/settings", "/billing", "/repositories", "/caches", "/audit")
ORGANIZATION = ("/", *(f"/ada-example-org{page}" for page in OF_ORGANIZATION))
BUILD = tuple(f"{PIPELINE}/builds/1?view={view}" for view in ("jobs", "graph", "time", "tests", "artifacts"))
PEOPLE = (
    *LOGIN,
    "/billing/paid",
    "/billing/canceled",
    "/account",
    "/cli-login",
    "/cli-login/done",
    "/invites",
    "/invites/accepted",
)
PAGES = (*PEOPLE, *ORGANIZATION, PIPELINE, f"{PIPELINE}/settings", f"{PIPELINE}/notifications", *BUILD)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_strict_and_complete(world: World, ada: Account, pipeline: PipelinePath, page: str):
    pipeline.build()
    browser = Browser(world) if page.startswith("/login") else Browser.of(ada)
    shown = browser.get(page)
    assert shown.status_code == 200
    assert set(shown.headers["Content-Security-Policy"].split("; ")) == POLICY
    assert shown.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", shown.text)
    assert len(re.findall(r"<h1[ >]", shown.text)) == 1
    for identifier in re.findall(r'<input id="([^"]+)"', shown.text):
        assert f'<label for="{identifier}">' in shown.text
    for link in re.findall(r'(?:src|href)="(\.[^"#]+)', shown.text):
        path = html.unescape(link).replace("../", "").removeprefix("./")
        assert browser.get(f"/{path}").status_code in {200, 303}, link


def test_an_error_of_a_page_is_a_page(ada: Account):
    shown = Browser.of(ada).get("/account/profile")
    assert shown.status_code == 405
    assert "<h1>Method Not Allowed</h1>" in shown.text
    assert shown.headers["X-Request-Id"] in shown.text
    assert set(shown.headers["Content-Security-Policy"].split("; ")) == POLICY


def test_an_error_of_the_api_stays_json(world: World):
    assert world.anonymous.simulate_get("/api/v0/user").json["error"]["code"] == "unauthorized"
    assert world.anonymous.simulate_get("/api/nowhere").json["error"]["code"] == "route_not_found"
    assert world.anonymous.simulate_get("/no/where").json["error"]["code"] == "route_not_found"
    assert world.anonymous.simulate_get("/api/nowhere", headers=BY_BROWSER).json["error"]["code"] == "route_not_found"


@pytest.mark.parametrize("path", ["/nobody", "/no/where", "/ada-example-org/pipelines/demo/none", "/.env"])
def test_an_unknown_path_is_a_page_to_a_browser(world: World, ada: Account, path: str):
    shown = Browser.of(ada).get(path, headers=BY_BROWSER)
    assert (shown.status_code, shown.text.count("<h1>Not Found</h1>")) == (404, 1)
    assert ">Account</a>" in shown.text
    assert ">Sign in</a>" in world.anonymous.simulate_get("/no/where", headers=BY_BROWSER).text


def test_hostile_texts_are_text(ada: Account):
    hostile = '"><script>alert(1)</script>'
    browser = Browser.of(ada)
    browser.send("/account", "account/profile", name=hostile)
    made = browser.send("/account", "account/api-keys", description=hostile)
    ada.world.storage.tokens.create_session(ada.user.id, hostile)
    shown = browser.get("/account").text
    assert "<script>" not in shown + made.text
    assert shown.count("&lt;script&gt;") >= 3
    assert "&lt;script&gt;" in made.text
    assert ada.user.name == hostile
    refused = browser.send("/account", "account/profile", name="")
    assert refused.status_code == 422


def test_static_files_have_tags(world: World):
    script = "/console/static/passkeys.js"
    first = world.anonymous.simulate_get(script)
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    again = world.anonymous.simulate_get(script, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert world.anonymous.simulate_get("/console/static/..%2fpages.py").status_code == 404


def test_a_theme_is_kept_by_the_browser_alone(world: World):
    visitor = Browser(world)
    assert "data-theme" not in visitor.get("/login").text
    chosen = visitor.get("/console/theme", query_string="theme=dark&next=/login")
    assert (chosen.status_code, chosen.headers["Location"]) == (303, "./../login")
    assert '<html lang="en" data-theme="dark">' in visitor.get("/login").text
    visitor.get("/console/theme", query_string="theme=system")
    assert "data-theme" not in visitor.get("/login").text


@pytest.mark.parametrize("cookie", ['"><script>', "blue", ""])
def test_a_theme_that_is_none_is_no_part_of_a_page(world: World, cookie: str):
    visitor = Browser(world, {"theme": cookie})
    assert "data-theme=" not in visitor.get("/login").text
    visitor.get("/console/theme", query_string="theme=%22blue&next=//elsewhere.example.org")
    assert "theme" not in visitor.cookies


def test_the_header_leads_to_each_organization(ada: Account, bob: Account):
    browser = Browser.of(ada)
    assert "Switch organization" not in browser.get("/ada-example-org").text
    ada.world.storage.organizations.add_member(bob.org_id, ada.user.id, Role.MEMBER)
    shown = browser.get("/ada-example-org").text
    assert 'href="./bob-example-org">Bob</a>' in shown
    assert 'href="./ada-example-org" aria-current="true"' in shown


def test_times_are_elements_in_utc(ada: Account, pipeline: PipelinePath):
    build = pipeline.build().stored
    shown = main_of(Browser.of(ada).get(f"{PIPELINE}/builds/1"))
    written = f"{build.created_at:%Y-%m-%d %H:%M} UTC"
    assert f'<time datetime="{build.created_at.isoformat(timespec="seconds")}">{written}</time>' in shown


def test_pages_name_pipelines_and_organizations(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_patch(pipeline.path, json={"name": "Web <shop>"})
    pipeline.build()
    shown = Browser.of(ada).get(f"{PIPELINE}/builds/1").text
    assert '/ada-example-org">Ada</a>' in shown
    assert '/pipelines/demo">Web &lt;shop&gt;</a>' in shown


@pytest.mark.parametrize("path", ["/no-such-org", "/ada-example-org/pipelines/demo/builds/99", "/a/b/c/d"])
def test_a_page_that_is_not_found_speaks_of_pages(ada: Account, pipeline: PipelinePath, path: str):
    shown = Browser.of(ada).get(path, headers=BY_BROWSER)
    assert shown.status_code == 404
    assert "first page" in main_of(shown)
    assert not re.search(r"/api/|endpoint|\bGET\b", main_of(shown))
