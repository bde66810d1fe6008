from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import one
from tests.e2e.sources import HELLO, pipeline_file, post
from tests.waiting import until

DRAINED = "waiting for a VM: the owner has drained this host"


@pytest.fixture(autouse=True)
def resumed(daemon: Daemon) -> Iterator[None]:
    """Resume the host after each test."""
    yield
    daemon.command("resume")


def test_a_drained_service_answers_and_jobs_wait_for_resume(daemon: Daemon, client: Client):
    pipeline = client.pipeline()
    assert daemon.json("drain") == {"drained": True, "changed": True, "jobs_running": 0, "renders_running": 0}
    assert daemon.json("drain")["changed"] is False
    build = pipeline.build(one("echo at last"))
    until(lambda: build.jobs()["only"]["pending_reason"] == DRAINED, DRAINED)
    assert build.jobs()["only"]["queue_position"] == 1
    assert httpx.get(f"{daemon.url}/healthz").text == "ok"
    status = daemon.json("status")
    assert status["drained_since"] is not None
    assert status["queued_jobs"] == 1
    assert "drained this host" in daemon.command("status").stdout
    assert daemon.json("resume") == {"drained": False, "changed": True}
    assert build.finish()["state"] == "passed"
    assert daemon.json("resume")["changed"] is False
    assert daemon.json("status")["drained_since"] is None


def test_a_drained_service_says_at_once_that_it_renders_nothing(daemon: Daemon, client: Client):
    pipeline = client.pipeline()
    daemon.command("drain")
    refused = post(pipeline, pipeline_file(HELLO))
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
    assert "drained this host" in refused.json()["error"]["message"]
    daemon.command("resume")
    assert post(pipeline, pipeline_file(HELLO)).json()["number"] == 1


def test_to_wait_is_to_return_when_the_running_jobs_have_ended(daemon: Daemon, client: Client):
    build = client.pipeline().build(one("echo runs; sleep 1; echo ends"))
    build.says("runs")
    assert daemon.json("drain", "--wait")["jobs_running"] == 0
    assert build.jobs()["only"]["state"] == "passed"


def test_to_wait_for_a_service_that_does_not_run_is_refused(daemon: Daemon, client: Client):
    build = client.pipeline().build(one("echo runs; sleep 600"))
    build.says("runs")
    daemon.kill()
    refused = daemon.command("drain", "--wait", check=False)
    assert refused.returncode == 1
    assert "no service runs" in refused.stderr
    daemon.start()
    assert build.job("only", "running")["attempt"] == 1
    build.cancel()
    build.finish()
