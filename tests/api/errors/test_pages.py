from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

import api
from api import error_catalog
from tests.api.world import World

_API = Path(api.__file__).parent
SOURCES = sorted([*_API.rglob("*.py"), *(_API.parent / "actors" / "source_hosts").rglob("*.py")])
"""The API, and the source hosts, whose refusals of deliveries have a code."""


def text_of(page: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", page))


@pytest.mark.parametrize("code", error_catalog())
def test_every_code_has_a_page(world: World, code: str):
    """It has the status, the meaning and the remedy."""

    answered = world.anonymous.simulate_get(f"/docs/errors/{code}")

    assert answered.status_code == 200
    assert answered.headers["Content-Type"] == "text/html; charset=utf-8"
    text = text_of(answered.text)
    for part in (
        code,
        f"Status {error_catalog()[code].status} ",
        error_catalog()[code].meaning,
        error_catalog()[code].remedy,
    ):
        assert part.replace("`", "") in text


def test_a_page_names_the_endpoints_that_answer_so(world: World):
    page = text_of(world.anonymous.simulate_get("/docs/errors/pipeline_slug_taken").text)
    assert "POST /api/v0/organizations/{org}/pipelines\n" in page
    assert "GET /api/v0/organizations/{org}/pipelines\n" not in page
    assert "All endpoints." in text_of(world.anonymous.simulate_get("/docs/errors/internal_error").text)


def test_the_list_leads_to_every_page(world: World):
    page = world.anonymous.simulate_get("/docs/errors").text
    assert set(re.findall(r'href="\.\./docs/errors/(\w+)"', page)) == set(error_catalog())


def test_doc_url_is_a_page_of_this_service(world: World):
    failed = world.anonymous.simulate_get("/api/v0/nothing")
    path = failed.json["error"]["doc_url"].removeprefix("https://ci.example.org")
    assert "route_not_found" in world.anonymous.simulate_get(path).text


def test_another_code_is_not_found(world: World):
    answered = world.anonymous.simulate_get("/docs/errors/<script>")
    assert answered.status_code == 404
    assert answered.json["error"]["code"] == "route_not_found"


def test_another_code_is_a_page_to_a_browser(world: World):
    answered = world.anonymous.simulate_get("/docs/errors/<b>none", headers={"Accept": "text/html,*/*;q=0.8"})
    assert answered.status_code == 404
    assert "<h1>Not Found</h1>" in answered.text
    assert "there is no page /docs/errors/<b>none" in text_of(answered.text)
    assert error_catalog()["route_not_found"].remedy_on_pages.replace("`", "") in text_of(answered.text)


@pytest.mark.parametrize("path", ["/docs/errors", "/docs/errors/busy"])
def test_a_page_runs_nothing_and_loads_its_style_and_icon_alone(world: World, path: str):
    answered = world.anonymous.simulate_get(path)

    assert "<script" not in answered.text
    assert "default-src 'none'" in answered.headers["Content-Security-Policy"]
    assert "script-src" not in answered.headers["Content-Security-Policy"]
    loaded = [urljoin(path, each) for each in re.findall('<link [^>]*href="([^"]*)"', answered.text)]
    assert loaded == ["/console/static/icon.svg", "/docs/static/page.css"]
    assert [world.anonymous.simulate_get(each).status_code for each in loaded] == [200, 200]
    assert "//" not in re.sub(r"<code>.*?</code>", "", answered.text)


def test_the_catalog_has_exactly_the_codes_that_are_raised():
    codes = {code for source in SOURCES if source.name != "catalog.py" for code in codes_of(source)}
    assert {code for code in codes if code in error_catalog()} == set(error_catalog())
    raised = {code for source in SOURCES for code in codes_raised_in(source)}
    assert raised <= set(error_catalog())


def codes_raised_in(source: Path) -> Iterator[str]:
    """Yield the literal codes that a source raises: `ApiError(…)`, `.not_found(…)` and `.unauthorized(…)`."""
    for call in calls_of(source):
        match call.func:
            case ast.Name(id="ApiError"):
                yield from strings_in(call.args[0])
            case ast.Attribute(value=ast.Name(id="ApiError"), attr="not_found"):
                yield from (f"{noun}_not_found" for noun in strings_in(call.args[0]))
            case ast.Attribute(value=ast.Name(id="ApiError"), attr="unauthorized"):
                yield from list(strings_in(call.args[-1])) if len(call.args) > 1 else ["unauthorized"]


def codes_of(source: Path) -> Iterator[str]:
    """Yield every string that may be a code: raised, passed to a function, or a value of a dictionary."""
    yield from codes_raised_in(source)
    for call in calls_of(source):
        yield from (text for argument in call.args for text in strings_in(argument))
    for table in (node for node in ast.walk(tree_of(source)) if isinstance(node, ast.Dict)):
        yield from (text for value in table.values for text in strings_in(value))


def calls_of(source: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree_of(source)) if isinstance(node, ast.Call))


def tree_of(source: Path) -> ast.Module:
    return ast.parse(source.read_text())


def strings_in(node: ast.AST) -> Iterator[str]:
    """Yield a literal string, or those in the branches of a conditional expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from strings_in(node.body)
        yield from strings_in(node.orelse)
