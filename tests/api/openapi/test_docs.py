from __future__ import annotations

import gzip
import re
from urllib.parse import urljoin, urlsplit

import pytest

from tests.api.world import World

STATIC = "/docs/static/"


def test_the_reference_loads_only_files_of_the_service(world: World):
    page = world.anonymous.simulate_get("/docs/api")

    assert page.status_code == 200
    assert len(re.findall(r'(?:src|href)="([^"]+)"', page.text)) == 10


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("path", ["/docs/api", "/docs/errors", "/docs/errors/busy"])
def test_links_of_a_page_work_below_a_proxys_path(world: World, path: str, slash: str):
    page = world.anonymous.simulate_get(path + slash)

    links = set(re.findall(r'(?:src|href)="([^"]+)"', page.text))
    assert links
    for link in links:
        target = urlsplit(urljoin(f"https://example.org/ci{path}{slash}", link)).path
        assert target.startswith("/ci/"), link
        assert world.anonymous.simulate_get(target.removeprefix("/ci")).status_code in {200, 303}, link


def test_the_root_is_no_endpoint(world: World):
    answered = world.anonymous.simulate_get("/")

    assert (answered.status_code, answered.headers["Location"]) == (303, "./login")
    assert world.anonymous.simulate_head("/").status_code == 303
    assert world.anonymous.simulate_post("/").status_code == 405
    assert "/" not in world.anonymous.simulate_get("/api/v0/openapi.json").json["paths"]


def test_pages_follow_the_readers_colour_scheme(world: World):
    for path in ("/docs/api", "/docs/errors"):
        assert '<meta name="color-scheme" content="light dark">' in world.anonymous.simulate_get(path).text
    style = world.anonymous.simulate_get(f"{STATIC}swagger-ui.css").content
    script = world.anonymous.simulate_get(f"{STATIC}reference.js").text
    assert b"html.dark-mode" in style
    assert '"dark-mode"' in script


def test_the_reference_keeps_a_token_for_its_tab_alone(world: World):
    script = world.anonymous.simulate_get(f"{STATIC}reference.js").text
    assert "sessionStorage" in script
    assert "localStorage" not in script
    assert "persistAuthorization:" not in script, "that keeps it in localStorage, for ever"


def test_the_reference_may_ask_no_other_host(world: World):
    policy = world.anonymous.simulate_get("/docs/api").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    sources = {source for directive in policy.split("; ") for source in directive.split()[1:]}
    assert sources == {"'none'", "'self'", "data:"}


@pytest.mark.parametrize(
    ("accepted", "gzipped"),
    [
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.8", True),
        ("*", True),
        (None, False),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0, *", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
    ],
)
def test_the_viewer_is_sent_as_its_reader_accepts_it_and_once(world: World, accepted: str | None, gzipped: bool):
    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    answered = world.anonymous.simulate_get(f"{STATIC}swagger-ui-bundle.js", headers=headers)

    assert answered.headers.get("Content-Encoding") == ("gzip" if gzipped else None)
    assert answered.headers["Vary"] == "Accept-Encoding"
    assert answered.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert b"SwaggerUIBundle" in (gzip.decompress(answered.content) if gzipped else answered.content)
    again = world.anonymous.simulate_get(
        f"{STATIC}swagger-ui-bundle.js", headers={**headers, "If-None-Match": answered.headers["ETag"]}
    )
    assert again.status_code == 304
    assert again.headers["Vary"] == "Accept-Encoding"
    assert not again.content


def test_compressed_and_plain_files_have_their_own_etags(world: World):
    tags = {
        world.anonymous.simulate_get(f"{STATIC}swagger-ui.css", headers={"Accept-Encoding": accepted}).headers["ETag"]
        for accepted in ("gzip", "identity")
    }
    assert len(tags) == 2


@pytest.mark.parametrize("name", ["README.md", "swagger-ui.css.gz", "..%2fapp.py", "%2e%2e/app.py"])
def test_no_other_file_is_served(world: World, name: str):
    assert world.anonymous.simulate_get(STATIC + name).status_code == 404
