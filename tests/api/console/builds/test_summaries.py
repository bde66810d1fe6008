"""The summaries of jobs on the page of their build."""

from __future__ import annotations

import pytest

from api.console.builds import summaries
from api.console.builds.markdown import html_of
from storage import JobSummary
from storage.files import Bounds
from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath, steps


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(pipeline_ir=steps("one"))


def page(account: Account, build: BuildPath, text: str, *, is_cut: bool = False) -> str:
    stored, storage = build.stored, account.world.storage
    storage.told.store_summary(JobSummary(build.job().stored.id, stored.id, text, is_cut))
    path = f"/{stored.organization_slug}/pipelines/{stored.pipeline_slug}/builds/{stored.number}?view=summary"
    return Browser.of(account).get(path).text


def test_a_page_shows_markdown_and_what_was_cut(ada: Account, build: BuildPath):
    shown = page(ada, build, "# Sizes\n\n| a |\n|---|\n| *1* |\n", is_cut=True)
    assert "<h3>Sizes</h3>" in shown
    assert "<td><em>1</em></td>" in shown
    assert "The rest was too long to be kept." in shown
    assert "Sizes" not in page(ada, build, "other")


HOSTILE = (
    "<script>alert(1)</script>",
    "x <img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) <javascript:alert(1)> [y](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x) [y]: javascript:alert(1)\n\n[y]",
    "![x](https://example.org/pixel.png)",
    '```x" onmouseover="alert(1)\ny\n```',
    '[x](https://example.org "\\" onmouseover=alert(1)")',
)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_summary_brings_no_script_and_no_picture(text: str):
    html = html_of(text)
    tags = [part.partition(">")[0] for part in html.split("<")[1:]]
    assert not [tag for tag in tags if tag.split()[0].strip("/") not in {"p", "a", "pre", "code"}]
    assert not [tag for tag in tags if "href=" in tag and not tag.startswith('a href="https://example.org')]
    assert not [tag for tag in tags if tag.count('"') % 2 or "<" in tag]


def test_what_takes_too_long_is_shown_as_text(ada: Account, build: BuildPath, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(summaries, "_BOUNDS", Bounds(cpu_seconds=1, memory_bytes=1 << 20, seconds=5))
    shown = page(ada, build, "[" * 60_000 + "<b>")
    assert '<pre class="output" tabindex="0">[[[' in shown
    assert "<b>" not in shown
