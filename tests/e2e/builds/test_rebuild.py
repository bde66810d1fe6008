"""Builds that repeat others, through the API and the command."""

from __future__ import annotations

from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.e2e.sources import archive

SHOW = one('cat greeting; echo "$TARGET $CI_BUILD_NUMBER"')
BUILD = {"source": archive({"greeting": "hello\n"}), "env": {"TARGET": "release"}}


def numbered(pipeline: Pipeline, number: int) -> Build:
    return Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/{number}")


def test_a_rebuild_runs_the_same_source_and_environment(pipeline: Pipeline):
    first = pipeline.build(SHOW, **BUILD)
    first.finish()
    answered = pipeline.client.request("POST", f"{first.path}/rebuild")
    assert answered.status_code == 201
    again = numbered(pipeline, answered.json()["number"])
    assert again.finish()["state"] == "passed"
    assert [first.log(), again.log()] == ["hello\nrelease 1\n", "hello\nrelease 2\n"]
    assert [first.record()["rebuild_of"], again.record()["rebuild_of"]] == [None, 1]


def test_the_owner_of_the_host_repeats_a_build(daemon: Daemon, pipeline: Pipeline):
    pipeline.build(SHOW, **BUILD).finish()
    name = f"{pipeline.client.org}/{pipeline.slug}"
    assert daemon.json("build", "rebuild", f"{name}/1")["rebuild_of"] == 1
    again = numbered(pipeline, 2)
    assert again.finish()["state"] == "passed"
    assert (again.log(), again.record()["source"]) == ("hello\nrelease 2\n", "cli")
    assert daemon.command("build", "rebuild", f"{name}/99", check=False).returncode == 1
