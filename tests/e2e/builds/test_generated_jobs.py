"""Jobs that jobs generate, with a real daemon that is killed at every place between."""

from __future__ import annotations

import json

import pytest

from tests.e2e.crashes import await_crash, start_to_crash
from tests.e2e.daemon import Build, Daemon, Pipeline

MORE = {"jobs": {"child": {"from": "maker", "run": "cat made"}, "after": {"needs": "child", "run": "echo after"}}}
IR = json.dumps(
    {
        "version": "1",
        "jobs": {
            "maker": {"run": f"echo made >made; echo '{json.dumps(MORE)}' >more.json", "generates": "more.json"},
            "own": {"needs": "maker", "run": "echo own"},
        },
    }
)


@pytest.mark.parametrize(
    ("point", "when"),
    [
        ("attempts.exited", "after"),
        ("snapshots.add", "before"),
        ("provider.snapshot", "after"),
        ("jobs.finish", "before"),
        ("jobs.finish", "after"),
    ],
)
def test_a_crash_around_the_end_of_a_maker_loses_no_job(daemon: Daemon, pipeline: Pipeline, point: str, when: str):
    """The file outlives its VM, which ends as its disk is kept."""
    daemon.stop()
    start_to_crash(daemon, point, when)
    build = pipeline.build(IR)
    await_crash(daemon)
    daemon.start()
    assert build.finish()["state"] == "passed"
    jobs = build.jobs()
    assert list(jobs) == ["maker", "own", "child", "after"]
    assert {job["attempt"] for job in jobs.values()} == {1}
    assert [job["generated_by"] for job in jobs.values()] == [None, None, *[jobs["maker"]["id"]] * 2]
    assert (build.log("child"), build.log("after"), build.log("own")) == ("made\n", "after\n", "own\n")


def test_a_rebuild_generates_anew_and_the_command_says_who_did(daemon: Daemon, pipeline: Pipeline):
    first = pipeline.build(IR)
    assert first.finish()["state"] == "passed"
    answered = pipeline.client.request("POST", f"{first.path}/rebuild")
    assert answered.status_code == 201, answered.text
    again = Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/2")
    assert again.finish()["state"] == "passed"
    assert again.states() == first.states()
    name = f"{pipeline.client.org}/{pipeline.slug}/2"
    shown = {job["key"]: job for job in daemon.json("build", "show", name)["jobs"]}
    assert shown["after"]["generated_by"] == shown["maker"]["id"]
    lines = daemon.command("build", "show", name).stdout.splitlines()
    assert [line.split()[0] for line in lines if line.endswith(" maker")] == ["child", "after"]


def test_logs_that_are_followed_have_generated_jobs(daemon: Daemon, pipeline: Pipeline):
    name = f"{pipeline.client.org}/{pipeline.slug}/1"
    pipeline.build(IR)
    lines = daemon.command("build", "logs", "--follow", name).stdout.splitlines()
    assert {"maker | generated jobs: child, after", "child | made", "after | after"} <= set(lines)
