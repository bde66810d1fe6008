"""Retries of finished builds, through the API and the command."""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import Graph
from tests.e2e.sources import archive
from tests.waiting import until

GRAPH = (
    Graph()
    .step("base", "cat said >base; touch made-by-base")
    .step("flaky", "cat base; ls made-by-base; echo try $CI_ATTEMPT; test $CI_ATTEMPT -gt 1", builds_in="base")
    .step("next", "echo on", after=("flaky",))
    .step("other", "true")
)


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """Park no VM, so that nothing but a retry wakes the pool."""
    return {"CI_DAEMON_POOL_PARKED": "0"}


def failed(pipeline: Pipeline) -> Build:
    build = pipeline.build(GRAPH.ir(), source=archive({"said": "hello\n"}))
    assert build.finish()["state"] == "failed"
    return build


def check(daemon: Daemon, build: Build) -> None:
    assert build.finish()["state"] == "passed"
    jobs = build.jobs()
    assert {key: job["attempt"] for key, job in jobs.items()} == {"base": 2, "flaky": 2, "next": 1, "other": 1}
    lines = build.log("flaky").splitlines()
    assert [line for line in lines if line != "attempt 2"] == [
        *("hello", "made-by-base", "try 1"),
        *("hello", "made-by-base", "try 2"),
    ]
    assert daemon.json("ledger", "verify") == []


def test_what_failed_runs_again_in_the_same_build(daemon: Daemon, pipeline: Pipeline):
    build = failed(pipeline)

    def answered() -> httpx.Response | None:
        response = pipeline.client.request("POST", f"{build.path}/retry")
        return response if response.status_code != 503 else None

    response = until(answered, "the end of the last VM")
    assert response.status_code == 200
    assert response.json()["finished_at"] is None
    check(daemon, build)


def test_the_owner_of_the_host_retries_a_build(daemon: Daemon, pipeline: Pipeline):
    build = failed(pipeline)
    name = f"{pipeline.client.org}/{pipeline.slug}/1"
    until(lambda: daemon.command("build", "retry", name, check=False).returncode == 0, "the end of the last VM")
    check(daemon, build)
    assert "nothing to retry" in daemon.command("build", "retry", name, check=False).stderr
