"""The coverage of builds: in the API, on their page, and as a badge."""

from __future__ import annotations

import gzip
import io
import tarfile
from xml.etree import ElementTree as ET

import pytest

from actors.coverage import build_coverage, coverage_in_words
from storage import BuildState, NewBuild, Storage
from storage.files import Bounds
from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath, World
from tests.records import new_job

OLD = {"src/a.py": b"one\ntwo\nthree\n", "src/b.py": b"same\n"}
NEW = {"src/a.py": b"one\nTWO\nthree\nfour\n", "src/b.py": b"same\n"}


def archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue())


def lcov(**files: dict[int, int]) -> bytes:
    """Return a report of files in ``src`` with the runs of each of their lines."""
    records = [
        f"SF:/workspace/src/{name}.py\n" + "".join(f"DA:{line},{hits}\n" for line, hits in lines.items())
        for name, lines in files.items()
    ]
    return ("TN:\n" + "end_of_record\n".join(records)).encode()


def built(
    ada: Account, pipeline: PipelinePath, report: bytes, source: dict[str, bytes], branch: str = "main"
) -> BuildPath:
    """Return a build that passed, of a source, which has kept a report."""
    storage = ada.world.storage
    owner = storage.pipelines.by_slug(ada.org_id, pipeline.path.rpartition("/")[2])
    assert owner is not None
    packed = archive(source)
    build = storage.builds.create(owner, NewBuild(branch, "c" * 40, source_archive=packed), [new_job()])
    (job,) = storage.jobs.of_build(build.id)
    storage.artifacts.store(build, job, [storage.artifacts.files.write(build.uuid, "out/lcov.info", [report])])
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    return BuildPath(ada, f"{pipeline.path}/builds/{build.number}")


def test_coverage_is_compared_with_the_target_branch(ada: Account, pipeline: PipelinePath):
    built(ada, pipeline, lcov(a={1: 1, 2: 1, 3: 0}, b={1: 1}), OLD)
    built(ada, pipeline, lcov(a={1: 0}), OLD, branch="other")
    build = built(ada, pipeline, lcov(a={1: 1, 2: 1, 3: 0, 4: 0}, b={1: 1}), NEW, branch="fix")

    assert build.get("/coverage").json == {
        "lines": 5,
        "covered_lines": 3,
        "percent": 60.0,
        "base_number": 1,
        "base_percent": 75.0,
        "change": -15.0,
        "changed_lines": 2,
        "changed_covered_lines": 1,
        "changed_percent": 50.0,
        "reports": 1,
        "faults": [],
    }
    first, second = build.get("/coverage/files").json["data"]
    assert first == {
        "path": "src/a.py",
        "lines": 4,
        "covered_lines": 2,
        "percent": 50.0,
        "base_percent": 66.66,
        "change": -16.66,
        "changed_lines": 2,
        "changed_covered_lines": 1,
        "uncovered": ["3-4"],
        "changed_uncovered": ["4"],
    }
    assert (second["path"], second["change"], second["changed_lines"], second["uncovered"]) == ("src/b.py", 0.0, 0, [])
    assert coverage_in_words(ada.world.storage, build.stored) == "coverage 60.00% (-15.00)"
    page = build.get("/coverage/files", params={"limit": 1}).json
    following = build.get("/coverage/files", params={"limit": 1, "cursor": page["next_cursor"]}).json
    assert ([row["path"] for row in following["data"]], following["next_cursor"]) == (["src/b.py"], None)


def test_the_page_shows_changed_lines_that_did_not_run(ada: Account, pipeline: PipelinePath):
    built(ada, pipeline, lcov(a={1: 1, 2: 1}), OLD)
    build = built(ada, pipeline, lcov(a={1: 1, 2: 0, 4: 0}), NEW, branch="fix")
    path = build.path.removeprefix("/api/v0/organizations")
    shown = Browser.of(ada).get(f"{path}?view=coverage").text
    assert "Coverage: 33.33%" in shown
    assert "Changed, and did not run: 2, 4" in shown
    assert "-66.67 points" in shown


def test_without_sources_nobody_knows_what_changed(ada: Account, pipeline: PipelinePath):
    before = built(ada, pipeline, lcov(a={1: 1}), OLD)
    build = built(ada, pipeline, lcov(a={1: 1}), NEW, branch="fix")
    sources = ada.world.storage.sources
    sources.path(before.stored.uuid).unlink()
    found = build.get("/coverage").json
    assert (found["change"], found["changed_lines"]) == (0.0, None)


def test_reports_of_several_kinds_add_up(ada: Account, pipeline: PipelinePath):
    build = pipeline.build()
    files = ada.world.storage.artifacts.files
    xml = b'<coverage><class filename="src/a.py"><line number="%d" hits="1"/></class></coverage>'
    kept = {
        "a.xml": xml % 2,
        "b.info": lcov(a={1: 1, 2: 0, 3: 0}),
        "junit.xml": b"<testsuite/>",
        "bad.xml": b"<coverage>",
        "coverage.out": b"mode: set\nexample.org/acme/web/main.go:1.1,2.2 1 1\n",
    }
    found = [files.write(build.stored.uuid, name, [content]) for name, content in kept.items()]
    ada.world.storage.artifacts.store(build.stored, build.job().stored, found)
    coverage = build.get("/coverage").json
    assert (coverage["reports"], coverage["lines"], coverage["covered_lines"]) == (3, 5, 4)
    assert coverage["faults"] == ["bad.xml: it is no XML: no element found: line 1, column 10"]
    assert (coverage["base_number"], coverage["change"], coverage["changed_lines"]) == (None, None, None)


def test_reports_have_bounds(ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch):
    """Also a report whose process is ended, as it takes too much."""
    report = lcov(a={1: 1, 2: 0})
    monkeypatch.setattr(build_coverage, "_LARGEST_REPORT", len(report) - 1)
    found = built(ada, pipeline, report, OLD).get("/coverage").json
    assert (found["percent"], found["faults"]) == (None, ["out/lcov.info: it is too large"])
    monkeypatch.undo()
    monkeypatch.setattr(build_coverage, "_BOUNDS", Bounds(cpu_seconds=10, memory_bytes=1 << 20, seconds=60))
    many = b"TN:\nSF:a\n" + b"".join(b"DA:%d,1\n" % line for line in range(1, 150_000))
    found = built(ada, pipeline, many, OLD).get("/coverage").json
    assert found["percent"] is None
    assert "memory" in found["faults"][0]


def test_a_build_without_reports_has_no_coverage(pipeline: PipelinePath):
    build = pipeline.build()
    assert build.get("/coverage").json["percent"] is None
    assert build.get("/coverage/files").json == {"data": [], "next_cursor": None}


def said(answered: object) -> str | None:
    return ET.fromstring(getattr(answered, "content")).findtext("{http://www.w3.org/2000/svg}title")  # noqa: B009 - any


@pytest.mark.parametrize(("hits", "expected"), [(10, "100%"), (9, "90%"), (3, "30%")])
def test_the_badge_shows_the_latest_build_that_passed(
    world: World, ada: Account, bob: Account, hits: int, expected: str
):
    opened, closed = ada.pipeline("Open", visibility="public"), ada.pipeline("Closed")
    path = f"/badges/{ada.org}/open/coverage.svg"
    assert said(world.anonymous.simulate_get(path)) == "coverage: unknown"
    report = lcov(a={line: int(line <= hits) for line in range(1, 11)})
    for pipeline in (opened, closed):
        built(ada, pipeline, report, OLD)
        pipeline.build()
    assert said(world.anonymous.simulate_get(path)) == f"coverage: {expected}"
    assert said(world.anonymous.simulate_get(path, params={"branch": "other"})) == "coverage: unknown"
    hidden = f"/badges/{ada.org}/closed/coverage.svg"
    for client in (world.anonymous, bob.client):
        answered = client.simulate_get(hidden)
        assert (answered.status_code, said(answered)) == (404, "build: unknown")
    assert said(ada.client.simulate_get(hidden)) == f"coverage: {expected}"


def test_a_build_of_a_fork_is_no_build_of_the_branch(ada: Account, pipeline: PipelinePath, storage: Storage):
    owner = storage.pipelines.by_slug(ada.org_id, "demo")
    assert owner is not None
    forked = storage.builds.create(owner, NewBuild("main", "c", from_fork=True), [new_job()])
    storage.builds.move(forked.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert storage.builds.latest_passed(owner.id, "main") is None
    built(ada, pipeline, lcov(a={1: 1}), OLD)
    latest = storage.builds.latest_passed(owner.id, "main")
    assert latest is not None
    assert (latest.number, storage.builds.latest_passed(owner.id, "main", latest.number)) == (2, None)
