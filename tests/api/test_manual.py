"""The manual as the service shows it: every page, its links, its search."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from api import manual
from tests.api.world import World

DOCS = Path(__file__).parents[2] / "docs"
OF_CONTRIBUTORS = {"contributing", "dependencies"}
HEADINGS = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)


def test_the_contents_name_every_page_once():
    named = [name for _, names in manual.CONTENTS for name in names]
    assert len(named) == len(set(named))
    assert manual.names() == {page.stem for page in DOCS.glob("*.md")} - OF_CONTRIBUTORS


@pytest.mark.parametrize("name", sorted(manual.names()))
def test_a_page_shows_its_text(name: str):
    page = manual.page_of(name)
    assert page is not None
    text = re.sub(r"^```.*?^```$", "", (DOCS / f"{name}.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    assert [each.text for each in page.headings] == [each.replace("`", "") for each in HEADINGS.findall(text)]
    assert "<h1" not in page.body
    assert "\0" not in page.html("")


def test_links_lead_to_pages_and_headings_that_are_there(world: World):
    anchors, links = dict[str, set[str]](), list[tuple[str, str]]()
    for name in manual.names():
        page = manual.page_of(name)
        assert page is not None
        anchors[f"/docs/{name}"] = {"", *re.findall(r'<h\d id="([^"]+)"', page.body)}
        links += ((f"/docs/{name}", link) for link in re.findall(r'(?:href|src)="([^"]+)"', page.html("../")))
    others = set[str]()
    for page_path, link in links:
        if urlsplit(link).scheme:
            continue
        path, fragment = urldefrag(urljoin(page_path, link))
        if path in anchors:
            assert fragment in anchors[path], (page_path, link)
        else:
            others.add(path)
    assert others
    assert {world.anonymous.simulate_get(path).status_code for path in others} == {200}


@pytest.mark.parametrize("path", ["/docs", "/docs/", "/docs/tutorial", "/docs/tutorial/", "/docs/search?q=push"])
def test_pages_work_below_a_proxys_path(world: World, path: str):
    page = world.anonymous.simulate_get(path)
    assert page.status_code == 200
    for link in re.findall(r'(?:href|src|action)="([^"]+)"', page.text):
        assert urljoin(f"https://example.org/ci{path}", link).startswith(("https://example.org/ci/", "http")), link


def test_the_skip_link_leads_past_the_contents(world: World):
    shown = world.anonymous.simulate_get("/docs/tutorial").text
    assert '<a class="skip" href="#article">' in shown
    assert shown.index('aria-label="Manual"') < shown.index('id="article"') < shown.index("<h1>")


@pytest.mark.parametrize("name", ["contributing", "README", "..", "%2e%2e", "tutorial.md", "design", "x" * 300])
def test_nothing_else_is_shown(world: World, name: str):
    assert world.anonymous.simulate_get(f"/docs/{name}").status_code == 404


@pytest.mark.parametrize(
    ("words", "page", "anchor"),
    [
        ("push not built", "connect", "why-was-my-push-not-built"),
        ("SERVICES", "language", "services"),
        ("time travel", "time-travel", ""),
        ("log_limit_bytes", "configuration", "jobs"),
    ],
)
def test_a_search_finds_the_section(words: str, page: str, anchor: str):
    assert (page, anchor) in [(found.page, found.anchor) for found in manual.find(words)[:5]]


def test_a_search_marks_words_and_shows_typed_text_as_text(world: World):
    shown = world.anonymous.simulate_get("/docs/search", params={"q": "superseded"}).text
    assert "<mark>superseded</mark>" in shown
    shown = world.anonymous.simulate_get("/docs/search", params={"q": '<b a="1">'}).text
    assert "<b a" not in shown
    assert "No section has all of these words" in shown


@pytest.mark.parametrize("words", ["", " ", "(((", "\\", "a " * 100, "." * 200])
def test_any_words_may_be_searched(words: str):
    assert len(manual.find(words)) <= 30
