"""A build of a pull request from a fork, from its wait for an approval to its end."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from storage import NewBuild, Storage, SystemClock
from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.sources import archive

HOSTILE = """
import harmont as hm

@hm.pipeline("demo")
def demo():
    look = 'echo "[${TOKEN-none}]"; cat greeting; env | grep -c hunter2 || true'
    return hm.scratch().sh(look, key="only", label="look", image="debian:12", runner_args={"secrets": ["TOKEN"]})
"""


@pytest.fixture
def of_fork(daemon: Daemon, pipeline: Pipeline) -> Build:
    """The build of a stranger's commit, as a pull request makes it."""
    client = pipeline.client
    client.request("PUT", "secrets/TOKEN", json={"value": "hunter2-and-a-half"})
    with closing(Storage.open(Path(daemon.state), SystemClock())) as storage:
        organization = storage.organizations.by_slug(client.org)
        assert organization is not None
        found = storage.pipelines.by_slug(organization.id, pipeline.slug)
        assert found is not None
        new = NewBuild(
            "eve:main",
            "c0ffee",
            source="webhook",
            source_archive=archive({".hm/pipeline.py": HOSTILE, "greeting": "hello\n"}),
            untrusted_origin="pull/1/7",
            approval_reason="eve may not push to acme/web",
        )
        build = storage.renders.begin(found, new, None)
    return Build(client, f"pipelines/{pipeline.slug}/builds/{build.number}")


def test_a_strangers_build_waits_also_over_a_crash(daemon: Daemon, pipeline: Pipeline, of_fork: Build):
    name = f"{pipeline.client.org}/{pipeline.slug}/1"
    other = pipeline.build('{"version": "0", "steps": [{"type": "command", "key": "only", "cmd": "true"}]}')
    other.finish()
    daemon.kill()
    daemon.start()
    shown = of_fork.record()
    assert (shown["state"], shown["untrusted"], of_fork.jobs()) == ("scheduled", True, {})
    assert shown["pending_reason"] == "waiting for approval: eve may not push to acme/web"
    assert daemon.json("build", "show", name)["pending_reason"] == shown["pending_reason"]

    assert daemon.json("build", "approve", name)["pending_reason"] is None
    assert daemon.command("build", "approve", name, check=False).returncode == 1
    assert of_fork.finish()["state"] == "passed"
    told = "this build is of a pull request from a fork, so it runs without its secrets: TOKEN\n"
    assert of_fork.log() == f"{told}[none]\nhello\n0\n"
    (entry,) = [each for each in daemon.json("audit") if each["action"] == "approveBuild"][:1]
    assert entry["subject"].split()[0] == name


def test_a_build_that_waits_is_canceled(pipeline: Pipeline, of_fork: Build):
    assert of_fork.cancel()["state"] == "canceled"
    answered = pipeline.client.request("POST", f"{of_fork.path}/approve")
    assert (answered.status_code, answered.json()["error"]["code"]) == (409, "approval_not_awaited")
    again = pipeline.client.request("POST", f"{of_fork.path}/rebuild")
    assert again.status_code == 201
    assert again.json()["pending_reason"] == "waiting for approval: eve may not push to acme/web"
