from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Build, Client, Daemon, ForkedDaemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.renders import render_log
from tests.e2e.sources import HELLO, archive, pipeline_file, post
from tests.state import run_sql


@pytest.fixture
def other(daemon: Daemon, images_dir: Path, settings: dict[str, str], tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that is not started, on a state directory that does not exist."""
    other = ForkedDaemon(tmp_path / "other", {"CI_DAEMON_IMAGES_DIR": str(images_dir), **settings})
    try:
        yield other
        assert "Traceback" not in other.log
    finally:
        other.kill()
        other.command("lease", "kill", "--all", check=False)


def on(other: Daemon, build: Build) -> Build:
    """Return the same build on another daemon."""
    client = build.client
    return Build(Client(other, client.email, client.org, client.token), build.path)


def source_build(pipeline: Pipeline, text: str) -> Build:
    """Build a pipeline file, whether its render succeeds or not."""
    answered = post(pipeline, pipeline_file(text))
    number = answered.json().get("number") or answered.json()["error"]["build_number"]
    return Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/{number}")


def test_builds_of_a_backup_continue_where_it_is_restored(
    daemon: Daemon, other: Daemon, client: Client, tmp_path: Path
):
    file = tmp_path / "x.backup"
    done = client.pipeline("done").build(one("echo was done"))
    done.finish()
    printing, rejected = (
        source_build(client.pipeline(name), f"print('{name} printed')\n{text}")
        for name, text in (("demo", HELLO), ("rejected", "raise SystemExit(1)\n"))
    )
    printing.finish()
    graph = (
        Graph()
        .step("first", "cat said; test $CI_ATTEMPT -gt 1 || sleep 600")
        .step("second", "echo after", after=("first",))
        .step("parent", "true")
        .step("child", "echo child; sleep 600", builds_in="parent")
    )
    build = client.pipeline("running").build(graph.ir(), source=archive({"said": "began\n"}))
    build.says("began", "first")
    build.says("child", "child")

    taken = daemon.json("backup", str(file))
    assert taken["counts"]["builds"] >= 4
    assert (taken["proved"], taken["missing"], taken["left_out"]) == (True, [], [])
    restored = other.json("restore", str(file))
    assert (restored["unfinished_builds"], restored["discrepancies"]) == (1, [])

    other.start()
    there = on(other, build)
    assert there.finish()["state"] == "failed"
    jobs = there.jobs()
    assert (jobs["first"]["state"], jobs["first"]["attempt"]) == ("passed", 2)
    assert there.log("first").startswith("began\n")
    assert there.log("first").endswith("began\n")
    assert jobs["second"]["state"] == "passed"
    assert (jobs["child"]["state"], jobs["child"]["error_code"]) == ("failed", "snapshot_failed")
    assert on(other, done).log() == "was done\n"
    assert on(other, printing).log("greet") == printing.log("greet")
    assert printing.log("greet").endswith("hello from the source\n")
    for each in (printing, rejected):
        assert render_log(on(other, each)) == render_log(each) != ""
        assert on(other, each).record() == each.record()
    assert other.json("ledger", "verify") == []
    (source,) = (other.state / "sources").glob("*.tar.gz")
    shown = other.json("build", "show", f"{client.org}/running/1")
    ((uuid,),) = run_sql(other.state, "SELECT uuid FROM builds WHERE external_id = :id", id=shown["id"])
    assert source.stem.removesuffix(".tar") == uuid
    rebuild = on(other, printing).client.request("POST", f"{printing.path}/rebuild")
    assert (rebuild.status_code, rebuild.json()["error"]["code"]) == (410, "source_expired")

    assert build.states()["first"] == "running"
    assert build.log("first") == "began\n"
    build.cancel()
    build.finish()
