"""Artifacts through the API: listed, downloaded whole and by ranges, and collected across a restart."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from tests.e2e.crashes import await_crash, start_to_crash
from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one

BIG = 200 * 2**20


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_ARTIFACTS_MAX_FILES": "150"}


def collecting(cmd: str, *globs: str) -> str:
    return one(cmd, runner_args={"artifacts": globs})


def listed(build: Build) -> dict[str, Any]:
    """Return the records of a build's artifacts by path, read page by page."""
    found: dict[str, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = build.client.get(f"{build.path}/artifacts", params={"cursor": cursor} if cursor else {"limit": 40})
        found |= {record["path"]: record for record in page["data"]}
        cursor = page["next_cursor"]
    return found


def download(build: Build, record: Any, **headers: str) -> httpx.Response:
    return httpx.get(
        record["download_url"], headers={"Authorization": f"Bearer {build.client.token}", **headers}, timeout=60
    )


def test_passed_and_failed_jobs_keep_matching_artifacts(pipeline: Pipeline):
    graph = Graph()
    graph.step("good", "mkdir -p a/b; echo 1 >a/b/x.xml; echo 2 >y.xml", runner_args={"artifacts": ["**/*.xml"]})
    graph.step("bad", "mkdir out; echo why >out/'r ü.txt'; exit 1", runner_args={"artifacts": ["out"]})
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "failed"
    records = listed(build)
    contents = {path: download(build, record).text for path, record in records.items()}
    assert contents == {"a/b/x.xml": "1\n", "y.xml": "2\n", "out/r ü.txt": "why\n"}
    bad = build.jobs()["bad"]["id"]
    (only,) = build.client.get(f"{build.path}/jobs/{bad}/artifacts")["data"]
    assert (only["job_id"], only["filename"]) == (bad, "r ü.txt")


def test_more_than_a_page_of_files(pipeline: Pipeline):
    build = pipeline.build(collecting("for i in $(seq 150); do echo $i >f$i; done", "f*"))
    assert build.finish()["state"] == "passed"
    assert set(listed(build)) == {f"f{number}" for number in range(1, 151)}


def test_a_big_file_comes_whole_by_ranges(pipeline: Pipeline):
    build = pipeline.build(collecting(f"head -c {BIG} /dev/urandom >big; sha256sum <big", "big"))
    assert build.finish(300)["state"] == "passed"
    record = listed(build)["big"]
    assert (record["file_size"], record["sha256"]) == (BIG, build.log().split()[0])
    digest = hashlib.sha256()
    step = 40 * 2**20
    for start in range(0, BIG, step):
        part = download(build, record, Range=f"bytes={start}-{start + step - 1}")
        assert part.status_code == 206
        digest.update(part.content)
    assert digest.hexdigest() == record["sha256"]


def test_a_daemon_that_is_killed_while_it_collects_loses_nothing(daemon: Daemon, pipeline: Pipeline):
    daemon.stop()
    start_to_crash(daemon, "artifacts.write", "after", call=2)
    build = pipeline.build(collecting("for i in 1 2 3; do echo $i >f$i; done", "f*"))
    await_crash(daemon)
    daemon.start()
    assert build.finish()["state"] == "passed"
    records = listed(build)
    assert {path: download(build, record).text for path, record in records.items()} == {
        "f1": "1\n",
        "f2": "2\n",
        "f3": "3\n",
    }
    assert build.jobs()["only"]["attempt"] == 1
