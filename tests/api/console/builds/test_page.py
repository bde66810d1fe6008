"""The page of a build, and its forms."""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from actors.test_reports import TestReport, read_artifact, results
from api.builds import test_reports as reading
from api.builds.test_reports import KeptReports
from api.console import pages
from api.console.builds import test_reports
from storage import (
    RENDER_LOG,
    Artifact,
    BuildState,
    EdgeKind,
    JobState,
    NewBuild,
    NewOrigin,
    OriginEvent,
    PreviewSpec,
    Storage,
)
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, BuildPath, PipelinePath, World, steps
from tests.records import new_job
from tests.state import run_sql
from tests.waiting import until

HOSTILE = "<img src=x onerror=alert(1)>"
VIEWS = ("jobs", "graph", "time", "tests", "artifacts")


def page_of(build: BuildPath) -> str:
    stored = build.stored
    return f"/{stored.organization_slug}/pipelines/{stored.pipeline_slug}/builds/{stored.number}"


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    node = {"step": {"key": "only", "cmd": "true", "label": HOSTILE, HOSTILE: 1}, "env": {}}
    ir = json.dumps({"version": "0", "graph": {"nodes": [node], "edges": []}})
    return pipeline.build(pipeline_ir=ir, branch=HOSTILE, message=f"{HOSTILE}\n\nmore")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shows_hostile_texts_as_text(ada: Account, build: BuildPath, view: str):
    shown = Browser.of(ada).get(f"{page_of(build)}?view={view}")
    assert shown.status_code == 200
    assert "<img" not in shown.text
    assert "&lt;img src=x" in shown.text
    assert f'href="./../../../..{page_of(build)}?view={view}" aria-current="page"' in shown.text


def test_the_page_names_warnings_and_the_shell(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_patch(pipeline.path, json={"strict_shell": True})
    made = pipeline.build(pipeline_ir=steps("one").replace('"cmd"', '"cwd": "web", "cmd"'))
    browser = Browser.of(ada)
    shown = browser.get(page_of(made)).text
    assert "1 warning about the pipeline" in shown
    assert "the key &#34;cwd&#34; has no effect" in shown
    job = re.search(r'href="\./[./]*([^"]+/jobs/[^"]+)"', shown)
    assert job is not None
    assert "ends at the first line that fails" in browser.get(f"/{job[1]}").text


def test_previews_are_shown_to_members_until_they_are_gone(ada: Account, build: BuildPath):
    """And then why they are."""
    storage, job = ada.world.storage, build.job().stored
    storage.previews.add(build.stored, replace(job, preview=PreviewSpec(8000, "serve").document), "a-disk")
    (preview,) = storage.previews.of_build(build.stored.id)
    way_in = f"console/previews/{preview.uuid}"
    shown = Browser.of(ada).get(page_of(build)).text
    assert (way_in in shown, "asleep, for members, until" in shown) == (True, True)
    storage.previews.end(preview.id, HOSTILE)
    shown = Browser.of(ada).get(page_of(build)).text
    assert (way_in in shown, "gone: &lt;img src=x" in shown) == (False, True)


def test_a_build_that_goes_on_is_followed(ada: Account, build: BuildPath):
    assert "sse-connect" in Browser.of(ada).get(page_of(build)).text
    build.job().end(JobState.CANCELED)
    ada.world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.CANCELED)
    assert "sse-connect" not in Browser.of(ada).get(page_of(build)).text


@pytest.mark.parametrize(
    ("view", "sign"), [("jobs", 'data-sign="⊘">'), ("graph", 'class="sign">⊘<'), ("time", 'data-sign="⊘">')]
)
def test_a_state_has_a_sign_besides_its_color(ada: Account, build: BuildPath, view: str, sign: str):
    page = f"{page_of(build)}?view={view}"
    assert sign not in Browser.of(ada).get(page).text
    build.job().end(JobState.CANCELED)
    assert sign in Browser.of(ada).get(page).text


def test_a_member_cancels_and_rebuilds(ada: Account, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=steps("one"))
    browser, page = Browser.of(ada), page_of(build)
    answered = browser.send(page, f"{page[1:]}/cancel")
    assert (answered.status_code, answered.headers["Location"]) == (303, f"./../../../../..{page}")
    assert build.stored.state is BuildState.CANCELED
    again = browser.send(page, f"{page[1:]}/rebuild")
    assert "a person, here" in browser.get(f"{page[:-1]}2").text
    assert again.headers["Location"].endswith("/builds/2")
    retried = browser.send(page, f"{page[1:]}/retry")
    assert retried.status_code == 303
    assert build.stored.state is BuildState.SCHEDULED


def test_a_member_approves_a_build_of_a_fork(ada: Account, pipeline: PipelinePath, storage: Storage):
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    new = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve may not push")
    number = storage.builds.create(found, new, [new_job()]).number
    browser, page = Browser.of(ada), page_of(BuildPath(ada, f"{pipeline.path}/builds/{number}"))
    assert "waiting for approval: eve may not push" in browser.get(page).text
    assert browser.send(page, f"{page[1:]}/approve").status_code == 303
    build = storage.builds.by_number(found.id, number)
    assert build is not None
    assert (build.approved_by, build.waits_for) == (ada.email, None)
    assert "/approve" not in browser.get(page).text


def test_a_form_needs_a_member_and_its_token(ada: Account, bob: Account, build: BuildPath):
    page = page_of(build)
    token = Browser.of(bob).fields("/account", "account/profile")["form_token"]
    assert Browser.of(bob).post(f"{page}/cancel", {"form_token": token}).status_code in {403, 404}
    stranger = Browser.of(bob)
    token = stranger.fields("/account", "account/profile")["form_token"]
    assert stranger.post(f"{page}/cancel", {"form_token": token}).status_code == 404
    assert Browser.of(ada).post(f"{page}/cancel", {}).status_code == 403
    assert build.stored.state is BuildState.SCHEDULED


def test_a_public_build_needs_no_session_and_has_no_forms(world: World, ada: Account, build: BuildPath):
    page = page_of(build)
    assert Browser(world).get(page).headers["Location"].startswith("./../../../../login?next=")
    ada.client.simulate_patch(f"{ada.path}/pipelines/demo", json={"visibility": "public"})
    answered = Browser(world).get(f"{page}?view=artifacts")
    assert "<form" not in main_of(answered)
    shown = answered.text
    assert "Artifacts" not in shown
    assert "Tests" not in shown
    assert ">ada-example-org</a>" not in shown
    assert ">Sign in</a>" in shown
    assert Browser(world).get("/ada-example-org/pipelines/demo").status_code == 200
    assert Browser(world).get("/ada-example-org").status_code == 303


def test_a_rejected_build_says_why(ada: Account, pipeline: PipelinePath):
    pipeline.post(pipeline_ir="{")
    shown = Browser.of(ada).get("/ada-example-org/pipelines/demo/builds/1").text
    assert "Why it failed" in shown
    assert "Views of the build" not in shown, "there is nothing to view"


def test_a_traceback_is_shown_once(world: World, ada: Account, pipeline: PipelinePath):
    """The reason is the error that ends it, also in lists; the output below has the frames."""
    stored = pipeline.build().stored
    trace = (
        'Traceback (most recent call last):\n  File "/workspace/.hm/a.py", line 3, in ci\n    oops()\nNameError: oops\n'
    )
    made = world.storage.pipelines.by_id(stored.pipeline_id)
    assert made is not None
    build = world.storage.renders.begin(made, NewBuild("main", "c0ffee"), None)
    with world.storage.logs.writer(build.uuid, RENDER_LOG, 1) as writer:
        writer.output(trace.encode())
    world.storage.renders.refuse(build.id, "render_failed", f"render failed (exit 1): {trace}")
    browser = Browser.of(ada)
    shown = browser.get(f"/ada-example-org/pipelines/demo/builds/{build.number}").text
    assert '<p class="lines">render failed (exit 1): NameError: oops</p>' in shown
    assert "At .hm/a.py, line 3" in shown
    assert shown.count("Traceback") == 1
    for page in ("/", "/ada-example-org/pipelines/demo"):
        assert '<span class="detail">render failed (exit 1): NameError: oops</span>' in browser.get(page).text


def test_an_unknown_build_is_a_page(ada: Account, build: BuildPath):
    for path in ("/builds/99", "/builds/x", "/builds/1/jobs/x"):
        shown = Browser.of(ada).get(f"/ada-example-org/pipelines/demo{path}")
        assert (shown.status_code, "<h1>Not Found</h1>" in shown.text) == (404, True)
    assert Browser.of(ada).get("/robots.txt").status_code == 404


def test_the_tests_of_reports_are_shown_failures_first(ada: Account, bob: Account, pipeline: PipelinePath):
    build, files = pipeline.build(), ada.world.storage.artifacts.files
    report = (
        b'<testsuite><testcase name="good"/><testcase name="bad"><failure>&lt;b&gt;why</failure></testcase></testsuite>'
    )
    kept = {"report.xml": report, "bomb.xml": b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>', "text.txt": report}
    found = [files.write(build.stored.uuid, path, [content]) for path, content in kept.items()]
    ada.world.storage.artifacts.store(build.stored, build.job().stored, found)
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    assert "1 failed, 0 skipped, 1 passed" in shown
    assert "&lt;b&gt;why" in shown
    assert shown.index("bad") < shown.index("good")
    assert "bomb.xml: it has a document type." in shown
    assert Browser.of(bob).get(f"{page_of(build)}?view=tests").status_code == 404


def keep_reports(ada: Account, build: BuildPath, **reports: bytes) -> None:
    files = ada.world.storage.artifacts.files
    found = [files.write(build.stored.uuid, f"{name}.xml", [content]) for name, content in reports.items()]
    ada.world.storage.artifacts.store(build.stored, build.job().stored, found)


def test_a_failure_in_the_last_of_many_reports_is_shown(ada: Account, pipeline: PipelinePath):
    build = pipeline.build()
    texts = [ada.world.storage.artifacts.files.write(build.stored.uuid, f"{each}.txt", [b""]) for each in range(600)]
    files = ada.world.storage.artifacts.files
    good, bad = b'<testcase name="good"/>', b'<testcase name="bad"><failure/></testcase>'
    contents = [b"<testsuite>%s</testsuite>" % (bad if number == 25 else good) for number in range(30)]
    reports = [files.write(build.stored.uuid, f"{n}.xml", [content]) for n, content in enumerate(contents)]
    ada.world.storage.artifacts.store(build.stored, build.job().stored, [*texts, *reports])
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    assert "1 failed, 0 skipped, 29 passed" in shown
    assert "report files were read" not in shown


def test_reports_that_are_not_read_are_told_beside_the_numbers(
    ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(results, "_MOST_REPORTS", 3)
    build, good = pipeline.build(), b'<testsuite><testcase name="good"/></testsuite>'
    odd = b'<?xml version="1.0" encoding="utf-7"?><testsuite/>'
    keep_reports(ada, build, a=good, b=odd, coverage=b"<coverage/>", d=good)
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    assert "0 failed, 0 skipped, 1 passed" in shown
    assert "1 of 3 report files were read; the numbers are of these." in shown
    assert "b.xml: it is no XML" in shown
    assert "coverage.xml: its first element is neither" in shown


def test_a_report_that_is_too_large_is_not_read(ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch):
    build, good = pipeline.build(), b'<testsuite><testcase name="good"/></testsuite>'
    monkeypatch.setattr(results, "LARGEST_REPORT", len(good))
    keep_reports(ada, build, a=good, b=good + b"\n")
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    assert "0 failed, 0 skipped, 1 passed" in shown
    assert "1 of 2 report files were read; the numbers are of these." in shown
    assert "b.xml: it has more than 0 MiB" in shown


def test_reports_beyond_the_bytes_of_a_build_are_not_read(
    ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch
):
    build, good = pipeline.build(), b'<testsuite><testcase name="good"/></testsuite>'
    monkeypatch.setattr(results, "_MOST_BYTES", 2 * len(good))
    keep_reports(ada, build, a=good, b=good, c=good)
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    assert "0 failed, 0 skipped, 2 passed" in shown
    assert "2 of 3 report files were read; the numbers are of these." in shown


def test_tests_that_are_not_listed_are_counted(ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(results, "_MOST_CASES", 3)
    build = pipeline.build()
    passed, failed = b'<testcase name="good"/>' * 5, b'<testcase name="bad"><failure/></testcase>'
    keep_reports(ada, build, a=b"<testsuite>%s%s</testsuite>" % (passed, failed))
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    assert "1 failed, 0 skipped, 5 passed" in shown
    assert "3 of these tests are not listed here" in shown
    assert "bad" in shown


def test_a_report_that_is_kept_under_two_names_counts_once(ada: Account, pipeline: PipelinePath):
    build, files = pipeline.build(), ada.world.storage.artifacts.files
    new = files.write(build.stored.uuid, "run-1.xml", [b'<testsuite><testcase name="good"/></testsuite>'])
    link = files.link(files.path(build.stored.uuid, new.uuid), build.stored.uuid)
    found = [new, replace(new, uuid=link, path="latest.xml")]
    ada.world.storage.artifacts.store(build.stored, build.job().stored, found)
    assert "0 failed, 0 skipped, 1 passed" in Browser.of(ada).get(f"{page_of(build)}?view=tests").text


def test_flaky_tests_are_named_with_their_history(ada: Account, pipeline: PipelinePath):
    storage = ada.world.storage
    for content in (b"<failure>&lt;img src=x></failure>", b"<skipped/>", b""):
        build = pipeline.build()
        report = b'<testsuite><testcase name="&lt;img>">%s</testcase><testcase name="b"/></testsuite>' % content
        new = storage.artifacts.files.write(build.stored.uuid, "out/report.xml", [report])
        storage.artifacts.store(build.stored, build.job().stored, [new])
    shown = Browser.of(ada).get(f"{page_of(build)}?view=tests").text
    flaky = shown[shown.index("Flaky: ") : shown.index("<summary>Passed")]
    assert "&lt;img&gt;" in flaky
    assert "<img" not in shown
    assert "failed in 1 of 3 builds" in flaky
    assert 'builds/1?view=tests">#1</a>' in flaky
    assert "passed in 3 of 3 builds" in shown
    first = Browser.of(ada).get("/ada-example-org/pipelines/demo/builds/1?view=tests").text
    assert "Flaky" not in first


def test_what_a_page_of_tests_has_read_is_not_read_again(
    ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch
):
    """Also where the builds before have more tests than are kept."""
    monkeypatch.setattr(test_reports, "_KEPT_OUTCOMES", 6)
    monkeypatch.setattr(test_reports, "_MOST_PAST_OUTCOMES", 3)
    for _ in range(5):
        build = pipeline.build()
        keep_reports(ada, build, a=b'<testsuite><testcase name="a"/><testcase name="b"/></testsuite>')
    browser, path = Browser.of(ada), f"{page_of(build)}?view=tests"
    first = browser.get(path).text
    monkeypatch.setattr(reading, "read_artifact", lambda *_: pytest.fail("a report was read again"))
    assert "0 failed, 0 skipped, 2 passed" in browser.get(path).text
    assert browser.get(path).status_code == 200
    assert "0 failed, 0 skipped, 2 passed" in first


def test_of_several_who_ask_for_a_report_at_once_one_reads_it(
    ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch
):
    """It can take seconds of a core."""
    build = pipeline.build()
    keep_reports(ada, build, a=b'<testsuite><testcase name="a"/></testsuite>')
    kept, reads = KeptReports(ada.world.storage), list[str]()
    others = [Thread(target=kept.of_build, args=(build.stored,)) for _ in range(3)]

    def arrived() -> bool:
        frames = sys._current_frames()  # noqa: SLF001 - no other way
        at = [frames[each.ident].f_code.co_name for each in others if each.ident in frames]
        return all(name in {"_tests", "wait"} for name in at)

    def read(storage: Storage, artifact: Artifact) -> TestReport:
        reads.append(artifact.uuid)
        if len(reads) == 1:
            for each in others:
                each.start()
            until(arrived, "the others")
        return read_artifact(storage, artifact)

    monkeypatch.setattr(reading, "read_artifact", read)
    assert kept.of_build(build.stored).counts == {"passed": 1}
    for each in others:
        each.join()
    assert len(reads) == 1


def test_a_page_of_a_hundred_jobs_is_small(ada: Account, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=steps(*(f"step-{number}" for number in range(100))))
    page = Browser.of(ada).get(page_of(build))
    assert len(page.content) < 60_000, "bytes, before a proxy compresses them"
    folder = Path(pages.__file__).parent / "static"
    assets = [file for file in folder.iterdir() if file.suffix in {".js", ".css", ".gz"}]
    sizes = [len(file.read_bytes() if file.suffix == ".gz" else gzip.compress(file.read_bytes())) for file in assets]
    assert "terminal" not in page.text
    assert "xterm" not in page.text
    own = [size for file, size in zip(assets, sizes, strict=True) if file.name.startswith(("terminal", "xterm"))]
    assert sum(sizes) - sum(own) < 120_000
    assert sum(own) < 100_000, "bytes, of the page of a terminal alone"


def matrix(cells: int) -> str:
    """Return a pipeline of a job with a matrix, and one that needs it."""
    test = {"run": "true", "matrix": {"n": [str(number) for number in range(cells)]}}
    return json.dumps({"version": "1", "jobs": {"test": test, "end": {"run": "true", "needs": ["test"]}}})


def test_a_matrix_is_one_entry_that_opens(ada: Account, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=matrix(3))
    build.job(0).end(JobState.PASSED)
    build.job(1).end(JobState.FAILED)
    jobs = build.get("/jobs").json["data"]
    assert [(each["matrix_job"], each["matrix"]) for each in jobs] == [
        *(("test", {"n": number}) for number in "012"),
        (None, None),
    ]
    page = Browser.of(ada).get(page_of(build)).text
    listed = page[page.index('<ol class="jobs">') :]
    head = listed[listed.index("<details>") : listed.index("</summary>")]
    assert "3 cells: 1 passed, 1 failed, 1 waiting" in head
    assert 'data-state="failed"' in head
    opened = listed[: listed.index("</details>")]
    assert [f">test ({number})<" in opened for number in "012"] == [True] * 3
    assert ">end<" not in opened


def test_list_and_graph_say_who_generated_a_job(world: World, ada: Account, pipeline: PipelinePath):
    ir = json.dumps({"version": "1", "jobs": {"maker": {"run": "true", "generates": "more.yml"}}})
    build = pipeline.build(pipeline_ir=ir)
    stored, maker = build.stored, build.job().stored
    world.storage.generated.add(stored, maker, 1, [new_job("child", (0, EdgeKind.DEPENDS_ON, False))])
    assert build.get("/jobs").json["data"][1]["generated_by"] == maker.uuid
    browser = Browser.of(ada)
    assert '<span class="detail">generated by maker' in browser.get(page_of(build)).text
    graph = browser.get(f"{page_of(build)}?view=graph").text
    assert "<title>child, generated by maker</title>" in graph
    assert "Dashed border: jobs that another one generated." in graph


def test_a_matrix_is_one_node_of_the_graph(ada: Account, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=matrix(3))
    build.job(1).end(JobState.FAILED)
    browser = Browser.of(ada)
    closed = browser.get(f"{page_of(build)}?view=graph").text
    assert 'class="counts">✗ 1  ○ 2</text>' in closed
    assert "test (1)" not in closed
    assert "?view=graph&amp;fold=no&amp;open=test" in closed
    opened = browser.get(f"{page_of(build)}?view=graph&fold=no&open=test&open=other")
    assert "test (1)" in main_of(opened)
    assert "Close test" in main_of(opened)
    assert "other" not in main_of(opened)


def test_a_thousand_cells_are_one_line_until_they_are_opened(ada: Account, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=matrix(990))
    page = Browser.of(ada).get(page_of(build)).text
    assert "990 cells: 990 waiting" in page
    graph = Browser.of(ada).get(f"{page_of(build)}?view=graph").text
    assert graph.count("<rect") == 2


def test_a_cell_that_failed_is_retried_alone(ada: Account, pipeline: PipelinePath, world: World):
    build = pipeline.build(pipeline_ir=matrix(2))
    for position, state in enumerate((JobState.FAILED, JobState.FAILED, JobState.SKIPPED)):
        build.job(position).end(state)
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.FAILED)
    browser = Browser.of(ada)
    path = f"{page_of(build)}/jobs/{build.job(0).uuid}"
    assert "Retry this job" in browser.get(path).text
    assert browser.send(path, f"{path.removeprefix('/')}/retry").status_code == 303
    assert [job["state"] for job in build.get("/jobs").json["data"]] == ["scheduled", "failed", "skipped"]
    assert "Retry this job" not in browser.get(path).text


def test_a_build_links_to_its_host_for_members(world: World, ada: Account, pipeline: PipelinePath):
    """Of a public pipeline strangers see the names alone: the host may know them, or not."""
    build = pipeline.build()
    storage = world.storage
    connected = storage.repositories.connect(ada.org_id, "https://example.org/acme/demo.git", "acme/demo", 60)
    run_sql(storage.directory, "UPDATE repositories SET provider = 'gitlab'")
    origin = NewOrigin(
        connected.id, OriginEvent.PULL_REQUEST, "refs/heads/main", 7, "main", "ada-l", "Ada", "ada@example.org"
    )
    storage.build_origins.record(build.stored.id, origin, reports=False)
    of_host = "https://example.org/acme/demo/-/"
    shown = main_of(Browser.of(ada).get(page_of(build)))
    for page in ("commit/c0ffee", "tree/main", "merge_requests/7", "commits/main?author=Ada"):
        assert f'href="{of_host}{page}"' in shown
    assert 'href="https://example.org/ada-l"' in shown
    listed = main_of(Browser.of(ada).get(page_of(build).rpartition("/builds/")[0]))
    for page in ("commit/c0ffee", "tree/main", "merge_requests/7"):
        assert f'href="{of_host}{page}"' in listed
    ada.client.simulate_patch(pipeline.path, json={"visibility": "public"})
    for path in (page_of(build), page_of(build).rpartition("/builds/")[0]):
        assert of_host not in Browser(world).get(path).text
