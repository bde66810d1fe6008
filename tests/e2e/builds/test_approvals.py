"""Approvals, from the wait to the end: of a fork's pull request, and of jobs that deploy."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from storage import NewBuild, Storage, SystemClock
from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.sources import archive
from tests.waiting import until

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


def at_gate(build: Build) -> Any:
    """Wait until the gate of `deploy` waits for an answer; return the job."""

    def look() -> Any:
        job = build.jobs()["deploy"]
        return job if job["gate"] is not None and job["gate"]["state"] == "waiting" else None

    return until(look, "the gate")


def test_an_approval_is_asked_refused_given_and_rolled_back(daemon: Daemon, pipeline: Pipeline):
    """The daemon is killed while a job waits, and just after the answer."""
    org = pipeline.client.org
    daemon.json("environment", "create", org, "production", "--approver", "owner", "--not-author")
    deploy = {"image": "debian:12", "run": "echo deployed", "gate": {"environment": "production"}}
    ir = json.dumps({"version": "1", "jobs": {"test": {"image": "debian:12", "run": "true"}, "deploy": deploy}})
    ir = ir.replace('"gate"', '"needs": ["test"], "gate"')
    first = pipeline.build(ir)
    job = at_gate(first)
    daemon.kill()
    daemon.start()
    assert at_gate(first)["state"] == "pending"
    own = pipeline.client.request("POST", f"{first.path}/jobs/{job['id']}/approve")
    assert (own.status_code, own.json()["error"]["code"]) == (403, "not_an_approver")

    name = f"{org}/{pipeline.slug}/1"
    daemon.json("job", "approve", name, "deploy", "--reason", "seen on staging")
    daemon.kill()
    daemon.start()
    assert first.finish()["state"] == "passed"
    assert first.log("deploy") == "deployed\n"
    assert first.jobs()["deploy"]["gate"]["reason"] == "seen on staging"
    replayed = daemon.command("job", "approve", name, "deploy", check=False)
    assert replayed.returncode == 1

    second, third = pipeline.build(ir), pipeline.build(ir)
    for build in (second, third):
        at_gate(build)
    daemon.json("job", "reject", f"{org}/{pipeline.slug}/2", "deploy", "--reason", "not on a Friday")
    assert second.finish()["state"] == "failed"
    assert second.jobs()["deploy"]["error_code"] == "gate_rejected"
    daemon.json("job", "approve", f"{org}/{pipeline.slug}/3", "deploy")
    assert third.finish()["state"] == "passed"

    shown = daemon.json("environment", "show", org, "production")
    assert (shown["current"]["number"], shown["waiting"]) == (3, [])
    back = daemon.json("environment", "rollback", org, "production")
    assert (back["number"], back["rebuild_of"]) == (4, 1)
    at_gate(Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/4"))
    actions = [each["action"] for each in daemon.json("audit")]
    assert [each for each in actions if each in {"approveJob", "rejectJob"}] == [
        "approveJob",
        "rejectJob",
        "approveJob",
    ]
    Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/4").cancel()
