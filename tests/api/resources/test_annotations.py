"""``…/builds/{number}/annotations``, and the pages that show what it lists."""

from __future__ import annotations

import pytest

from storage import Annotation, AnnotationLevel
from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath, steps

ERROR, WARNING, NOTICE = AnnotationLevel
SAID = [
    Annotation(ERROR, "<b>is</b> wrong", "src/a.py", 3, 7, "<i>F401</i>", "ruff", 12),
    Annotation(WARNING, "is odd", "src/b.py", 4),
    Annotation(NOTICE, "all is well"),
]


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    build = pipeline.build(pipeline_ir=steps("one", "two"))
    for position, said in enumerate((SAID, SAID[:1])):
        job = build.job(position).stored
        build.account.world.storage.told.store_annotations(job.id, build.stored.id, said)
    return build


def messages(build: BuildPath, query: str = "") -> list[str]:
    return [each["message"] for each in build.get(f"/annotations{query}").json["data"]]


def test_annotations_are_listed_by_page_and_filter(build: BuildPath):
    first = build.get("/annotations?limit=1").json
    assert first["data"] == [
        {
            "job_id": build.job(0).stored.uuid,
            "job_name": "make one",
            "level": "error",
            "path": "src/a.py",
            "line": 3,
            "column": 7,
            "title": "<i>F401</i>",
            "message": "<b>is</b> wrong",
            "matcher": "ruff",
            "log_line": 12,
        }
    ]
    assert messages(build, f"?cursor={first['next_cursor']}") == ["is odd", "all is well", "<b>is</b> wrong"]
    assert messages(build, "?level=warning") == ["is odd"]
    assert messages(build, "?path=src/a.py&step=two") == ["<b>is</b> wrong"]
    assert messages(build, "?path=src/b.py&step=two") == []
    refused = build.get("/annotations?level=fatal")
    assert (refused.status_code, refused.json["error"]["code"]) == (422, "invalid_filter")


def test_pages_show_annotations_as_text_with_links_to_the_log(ada: Account, build: BuildPath):
    stored = build.stored
    page = f"/{stored.organization_slug}/pipelines/{stored.pipeline_slug}/builds/{stored.number}"
    job = f"{page}/jobs/{build.job(0).stored.uuid}"
    for shown in (Browser.of(ada).get(f"{page}?view=summary").text, Browser.of(ada).get(job).text):
        assert "src/a.py:3:7" in shown
        assert "&lt;i&gt;F401&lt;/i&gt;" in shown
        assert "&lt;b&gt;is&lt;/b&gt; wrong" in shown
        assert f'{job}#L12">line 12 of the log</a>' in shown
        assert "all is well" in shown
    assert "Annotations: 2 errors, 1 notice, 1 warning" in Browser.of(ada).get(f"{page}?view=summary").text
