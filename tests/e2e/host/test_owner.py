"""Commands of the host's owner while the service runs."""

from __future__ import annotations

import pytest

from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "1", "CI_DAEMON_JOBS_KILL_GRACE": "1"}


def name_of(pipeline: Pipeline, build: Build) -> str:
    """Return the build's name: ORG/PIPELINE/NUMBER."""
    return f"{pipeline.client.org}/{pipeline.slug}/{build.path.rpartition('/')[2]}"


def test_a_force_finished_build_frees_its_vm_without_errors(daemon: Daemon, pipeline: Pipeline):
    build = pipeline.build(Graph().step("hangs", "echo begun; sleep 600").step("next", "true", after=("hangs",)).ir())
    build.says("begun", "hangs")
    before = len(daemon.log)
    name = name_of(pipeline, build)
    daemon.command("build", "force-finish", name, "--state", "failed", "--note", "it hangs")
    ended = build.record()
    assert (ended["state"], ended["error_code"], ended["error_message"]) == ("failed", "internal_error", "it hangs")
    assert build.states() == {"hangs": "failed", "next": "canceled"}
    assert daemon.json("lease", "list") == []
    assert pipeline.build(one("true")).finish()["state"] == "passed"
    assert [line for line in daemon.log[before:].splitlines() if "ERROR" in line or "Traceback" in line] == []
    (entry,) = daemon.json("audit", "--action", "forceFinishBuild")
    assert (entry["subject"], entry["note"]) == (name, "failed: it hangs, box")
    again = daemon.command("build", "force-finish", name, "--state", "failed", "--note", "again", check=False)
    assert again.returncode == 1
    assert f"build {name} is failed already: nothing to do" in again.stderr


def test_the_owner_cancels_a_build_with_and_without_the_service(daemon: Daemon, pipeline: Pipeline):
    build = pipeline.build(one("echo begun; sleep 600"))
    build.says("begun")
    name = name_of(pipeline, build)
    assert "is being canceled" in daemon.command("build", "cancel", name).stdout
    assert build.finish()["state"] == "canceled"
    build = pipeline.build(one("echo begun; sleep 600"))
    build.says("begun")
    daemon.kill()
    name = name_of(pipeline, build)
    assert "will be canceled when the service runs" in daemon.command("build", "cancel", name).stdout
    daemon.start()
    assert build.finish()["state"] == "canceled"
    daemon.wait_until_idle()


def test_a_build_is_force_finished_without_the_service(daemon: Daemon, pipeline: Pipeline):
    build = pipeline.build(one("echo begun; sleep 600"))
    build.says("begun")
    daemon.kill()
    name = name_of(pipeline, build)
    daemon.command("build", "force-finish", name, "--state", "canceled", "--note", "we move house")
    assert daemon.json("lease", "list") == []
    daemon.start()
    assert build.record()["state"] == "canceled"
    assert pipeline.build(one("true")).finish()["state"] == "passed"
    daemon.command("ledger", "verify")


def test_with_fail_fast_the_first_failure_ends_the_build(daemon: Daemon, pipeline: Pipeline):
    daemon.command("pipeline", "edit", pipeline.client.org, pipeline.slug, "--fail-fast")
    build = pipeline.build(Graph().step("bad", "exit 3").step("waits", "sleep 600").ir())
    assert build.finish()["state"] == "failed"
    assert build.states() == {"bad": "failed", "waits": "canceled"}
    daemon.command("pipeline", "edit", pipeline.client.org, pipeline.slug, "--no-fail-fast")
