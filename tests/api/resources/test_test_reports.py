"""Tests of builds, as the API shows them."""

from __future__ import annotations

from typing import Any

import pytest

from api.builds import test_reports
from tests.api.world import Account, BuildPath, PipelinePath, steps

REPORT = b"""<testsuite name="math">
<testcase name="adds" time="1.5" file="math/test_add.py" line="7"/>
<testcase name="divides"><failure message="by zero">trace</failure></testcase>
<testcase name="multiplies"><skipped message="later"/></testcase>
</testsuite>"""
ADDS = b'<testsuite name="math"><testcase name="adds"/></testsuite>'
ADDS_NOT = b'<testsuite name="math"><testcase name="adds"><failure/></testcase></testsuite>'


def keep(build: BuildPath, position: int = 0, **files: bytes) -> None:
    storage, stored = build.account.world.storage, build.stored
    found = [storage.artifacts.files.write(stored.uuid, f"{name}.xml", [content]) for name, content in files.items()]
    storage.artifacts.store(stored, build.job(position).stored, found)


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(pipeline_ir=steps("one", "two"))


def names(build: BuildPath, **params: Any) -> list[str]:
    return [row["name"] for row in build.get("/tests", params=params).json["data"]]


def history(account: Account, pipeline: PipelinePath, **params: Any) -> Any:
    return account.client.simulate_get(f"{pipeline.path}/test-history", params=params).json


def test_a_build_lists_its_tests_with_their_output(build: BuildPath):
    keep(build, junit=REPORT)
    adds, divides, multiplies = build.get("/tests").json["data"]
    assert adds == {
        "job_id": build.job().uuid,
        "step_key": "one",
        "suite": "math",
        "name": "adds",
        "outcome": "passed",
        "seconds": 1.5,
        "output": "",
        "file": "math/test_add.py",
        "line": 7,
    }
    assert (divides["outcome"], divides["output"], divides["file"], divides["line"]) == (
        "failed",
        "by zero\ntrace",
        None,
        None,
    )
    assert (multiplies["outcome"], multiplies["output"]) == ("skipped", "later")


def test_tests_are_filtered_and_paged(build: BuildPath):
    keep(build, junit=REPORT)
    keep(build, 1, junit=ADDS)
    assert names(build) == ["adds", "divides", "multiplies", "adds"]
    assert names(build, outcome="passed", step="two") == ["adds"]
    assert names(build, name="DIV") == ["divides"]
    assert names(build, name="math", outcome="skipped") == ["multiplies"]
    assert names(build, step="three") == []
    first = build.get("/tests", params={"outcome": "passed", "limit": 1}).json
    second = build.get("/tests", params={"outcome": "passed", "limit": 1, "cursor": first["next_cursor"]}).json
    assert [page["data"][0]["step_key"] for page in (first, second)] == ["one", "two"]
    assert second["next_cursor"] is None
    refused = build.get("/tests", params={"outcome": "odd"})
    assert (refused.status_code, refused.json["error"]["code"]) == (422, "invalid_filter")
    assert "outcome: expected one of failed, skipped, passed" in refused.json["error"]["message"]


def test_the_summary_counts_and_names_what_is_unread(build: BuildPath):
    keep(build, junit=REPORT, bomb=b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>')
    assert build.get("/test-summary").json == {
        "failed": 1,
        "skipped": 1,
        "passed": 1,
        "reports": 2,
        "unread_reports": 1,
        "faults": ["bomb.xml: it has a document type"],
    }


def test_a_build_without_reports_has_no_tests(build: BuildPath):
    assert build.get("/tests").json == {"data": [], "next_cursor": None}
    assert build.get("/test-summary").json["reports"] == 0


def test_a_history_has_a_row_for_each_step_of_a_build(ada: Account, pipeline: PipelinePath):
    for commit, one in (("c1", ADDS), ("c2", ADDS_NOT)):
        build = pipeline.build(pipeline_ir=steps("one", "two"), commit=commit)
        keep(build, junit=one, again=ADDS)
        keep(build, 1, junit=ADDS)
    keep(pipeline.build(branch="other"), junit=ADDS)

    found = history(ada, pipeline, name="adds", suite="math")
    assert found["data"][0] == {
        "build_number": 2,
        "commit": "c2",
        "step_key": "one",
        "suite": "math",
        "outcome": "failed",
        "seconds": 0.0,
    }
    assert [(row["build_number"], row["step_key"], row["outcome"]) for row in found["data"]] == [
        (2, "one", "failed"),
        (2, "two", "passed"),
        (1, "one", "passed"),
        (1, "two", "passed"),
    ]
    assert found["next_cursor"] is None
    assert len(history(ada, pipeline, name="adds", step="two")["data"]) == 2
    assert [row["build_number"] for row in history(ada, pipeline, name="adds", branch="other")["data"]] == [3]
    assert history(ada, pipeline, name="adds", suite="other")["data"] == []
    assert history(ada, pipeline, suite="math")["error"]["code"] == "invalid_filter"


def past(ada: Account, pipeline: PipelinePath, limit: int) -> list[tuple[int, str]]:
    """Return the builds and steps of a history that is read page by page."""
    rows, cursor = [], None
    while True:
        page = history(ada, pipeline, name="adds", limit=limit, **({"cursor": cursor} if cursor else {}))
        assert len(page["data"]) <= limit
        rows += [(row["build_number"], row["step_key"]) for row in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return rows


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize(("bound", "value"), [("_MOST_PAST_BYTES", 2 * len(ADDS)), ("_MOST_PAST_REPORTS", 3)])
def test_the_pages_of_a_history_have_each_row_once(
    ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch, limit: int, bound: str, value: int
):
    """Also where a page ends at its bound of bytes or of reports, and in builds without any."""
    monkeypatch.setattr(test_reports, bound, value)
    monkeypatch.setattr(test_reports, "_KEPT_CASES", 1)
    for number in range(6):
        build = pipeline.build(pipeline_ir=steps("one", "two"))
        if number != 3:
            keep(build, junit=ADDS)
            keep(build, 1, junit=ADDS)
    expected = [(number, step) for number in (6, 5, 3, 2, 1) for step in ("one", "two")]
    assert past(ada, pipeline, limit) == expected


def test_tests_are_for_members_also_of_a_public_pipeline(bob: Account, ada: Account, build: BuildPath):
    pipeline = build.path.rpartition("/builds/")[0]
    ada.client.simulate_patch(pipeline, json={"visibility": "public"})
    for path in (f"{build.path}/tests", f"{build.path}/test-summary", f"{pipeline}/test-history?name=adds"):
        assert bob.client.simulate_get(path).status_code == 404
        assert ada.world.anonymous.simulate_get(path).status_code == 401
