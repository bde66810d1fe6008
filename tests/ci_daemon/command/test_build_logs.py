"""`ci-daemon build logs` for builds without jobs."""

from __future__ import annotations

import pytest

from storage import RENDER_LOG, Build, NewBuild, Pipeline, Storage
from tests.ci_daemon.conftest import Run, RunJson
from tests.records import new_job, new_pipeline


@pytest.fixture
def pipeline(storage: Storage) -> Pipeline:
    return new_pipeline(storage, email="ada@example.org")


@pytest.fixture
def build(storage: Storage, pipeline: Pipeline) -> Build:
    """A build that is being rendered."""
    return storage.renders.begin(pipeline, NewBuild("main", "c0ffee"), None)


def print_while_rendering(storage: Storage, build: Build, text: bytes) -> None:
    with storage.logs.writer(build.uuid, RENDER_LOG, 1) as writer:
        writer.output(text)


def test_a_failed_render_shows_its_output(
    storage: Storage, build: Build, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    print_while_rendering(storage, build, b"loading\nTraceback (most recent call last):\nKeyError: 'x'\n")
    storage.renders.refuse(build.id, "render_failed", "render failed (exit 1): Traceback\nKeyError: 'x'")
    for more in ((), ("--follow",)):
        assert run("build", "logs", "acme/web/1", *more) == 0
        assert capsys.readouterr().out.splitlines() == [
            "render | loading",
            "render | Traceback (most recent call last):",
            "render | KeyError: 'x'",
            "build #1 failed: render_failed: KeyError: 'x'",
        ]
    [document] = run_json("build", "logs", "acme/web/1")
    assert (document["job_id"], document["key"], document["state"]) == (None, "render", "failed")
    assert document["log"].endswith("KeyError: 'x'\n")


def test_a_reason_of_several_lines_is_shown_whole_without_a_log(
    storage: Storage, build: Build, run: Run, capsys: pytest.CaptureFixture[str]
):
    storage.renders.refuse(build.id, "render_failed", "source fetch failed (exit 6): no such host\nexample.org")
    assert run("build", "logs", "acme/web/1") == 0
    lines = ["build #1 failed: source fetch failed (exit 6): no such host", "example.org"]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_build_without_any_log_says_why_it_failed(
    storage: Storage, build: Build, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    storage.renders.refuse(build.id, "render_failed", "render timed out after 120 s")
    assert run("build", "logs", "acme/web/1") == 0
    assert capsys.readouterr().out == "build #1 failed: render timed out after 120 s\n"
    assert run_json("build", "logs", "acme/web/1") == []


def test_a_build_that_has_jobs_does_not_show_its_render_log(
    storage: Storage, build: Build, run: Run, capsys: pytest.CaptureFixture[str]
):
    print_while_rendering(storage, build, b"loading\n")
    assert storage.renders.plan(build.id, "{}", None, [new_job("lint")], has_source=False)
    assert run("build", "logs", "acme/web/1") == 0
    assert capsys.readouterr().out == ""


def test_following_begins_while_the_build_is_rendered(
    storage: Storage,
    build: Build,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    def render(_seconds: float) -> None:
        print_while_rendering(storage, build, b"late\n")
        storage.renders.refuse(build.id, "render_failed", "render failed (exit 1): late")

    monkeypatch.setattr("time.sleep", render)
    assert run("build", "logs", "acme/web/1", "-f") == 0
    assert capsys.readouterr().out == "render | late\nbuild #1 failed: render failed (exit 1): late\n"


def test_log_of_a_service_comes_after_that_of_its_job(
    storage: Storage, build: Build, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of its lines begins with the job and the service."""
    services = {"db": {"image": "postgres:16"}}
    assert storage.renders.plan(build.id, "{}", None, [new_job("lint", services=services)], has_source=False)
    (job,) = storage.jobs.of_build(build.id)
    with storage.logs.service_writer(build.uuid, job.uuid, "db", 1) as writer:
        writer.output(b"up\n")
    assert run("build", "logs", "acme/web/1") == 0
    assert capsys.readouterr().out == "lint db | up\n"
    assert [document.get("service") for document in run_json("build", "logs", "acme/web/1")] == [None, "db"]
