"""The page of an artifact."""

from __future__ import annotations

import pytest

from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath

HOSTILE = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
PNG = b"\x89PNG\r\n\x1a\n\0\0"


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build()


def keep(build: BuildPath, path: str, content: bytes) -> str:
    """Keep a file of a build; return the path of its page."""
    storage, stored = build.account.world.storage, build.stored
    new = storage.artifacts.files.write(stored.uuid, path, [content])
    storage.artifacts.store(stored, build.job().stored, [new])
    return f"/{stored.page}/artifacts/{new.uuid}"


def test_a_text_is_shown_as_text(ada: Account, build: BuildPath):
    page = keep(build, "report/<b>.html", b"\xef\xbb\xbf<script>alert(1)</script>\x1b[31mred\n")
    shown = Browser.of(ada).get(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;red" in shown.text
    assert "report/&lt;b&gt;.html" in shown.text
    assert "<b>" not in shown.text
    assert Browser.of(ada).get(f"{page}/image").status_code == 404


def test_the_beginning_of_a_long_text_is_shown(ada: Account, build: BuildPath):
    shown = Browser.of(ada).get(keep(build, "long.txt", "é".encode() * 100_000 + b"the end")).text
    assert "The first 128 KB of 195.3 KiB" in shown
    assert "the end" not in shown


@pytest.mark.parametrize(
    ("path", "content", "media_type"),
    [("a.png", PNG, "image/png"), ("no-image.txt", b"GIF89a...", "image/gif"), ("a.SVG", HOSTILE, "image/svg+xml")],
)
def test_an_image_runs_nothing(ada: Account, build: BuildPath, path: str, content: bytes, media_type: str):
    page = keep(build, path, content)
    assert f'{page}/image" alt="{path}">' in Browser.of(ada).get(page).text
    image = Browser.of(ada).get(f"{page}/image")
    assert (image.content, image.headers["Content-Type"]) == (content, media_type)
    assert image.headers["X-Content-Type-Options"] == "nosniff"
    assert image.headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert image.headers["Content-Security-Policy"].endswith("; sandbox")


@pytest.mark.parametrize(("path", "content"), [("a.svg", b"no image"), ("a.png", b"<svg"), ("a.bin", b"a\0b")])
def test_any_other_file_is_no_image(ada: Account, build: BuildPath, path: str, content: bytes):
    page = keep(build, path, content)
    assert 'class="preview"' not in Browser.of(ada).get(page).text
    assert Browser.of(ada).get(f"{page}/image").status_code == 404


def test_artifacts_are_for_members(ada: Account, bob: Account, build: BuildPath):
    page = keep(build, "a.png", PNG)
    ada.client.simulate_patch(f"{ada.path}/pipelines/demo", json={"visibility": "public"})
    for path in (page, f"{page}/image", f"{page}/download"):
        assert Browser.of(bob).get(path).status_code in {403, 404}, path
        assert Browser(ada.world).get(path).status_code in {303, 401}, path


def test_the_artifacts_of_a_build_are_a_tree(ada: Account, build: BuildPath):
    keep(build, "out/<img src=x>/a.txt", b"text")
    shown = Browser.of(ada).get(f"/{build.stored.page}?view=artifacts").text
    assert "<img" not in shown
    assert "out/&lt;img src=x&gt;" in shown
    assert ">a.txt</a>" in shown
