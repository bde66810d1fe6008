from __future__ import annotations

import gzip
import re

import pytest

from tests.api.world import World

STATIC = "/docs/static/"


def test_the_reference_loads_only_what_the_service_has(world: World):
    page = world.anonymous.simulate_get("/docs")

    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 4
    for path in loaded:
        assert not path.startswith("/"), "the service may stand below a path of a proxy"
        assert world.anonymous.simulate_get(f"/{path}").status_code == 200, path


def test_the_reference_may_ask_no_other_host(world: World):
    policy = world.anonymous.simulate_get("/docs").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    sources = {source for directive in policy.split("; ") for source in directive.split()[1:]}
    assert sources == {"'none'", "'self'", "data:"}


def test_the_viewer_is_sent_compressed_and_once(world: World):
    answered = world.anonymous.simulate_get(f"{STATIC}swagger-ui-bundle.js")

    assert answered.headers["Content-Encoding"] == "gzip"
    assert answered.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert b"SwaggerUIBundle" in gzip.decompress(answered.content)
    again = world.anonymous.simulate_get(
        f"{STATIC}swagger-ui-bundle.js", headers={"If-None-Match": answered.headers["ETag"]}
    )
    assert again.status_code == 304
    assert not again.content


@pytest.mark.parametrize("name", ["README.md", "swagger-ui.css.gz", "..%2fapp.py", "%2e%2e/app.py"])
def test_no_other_file_is_served(world: World, name: str):
    assert world.anonymous.simulate_get(STATIC + name).status_code == 404
