"""The daemon crashes or is stopped during builds: they go on, and the next daemon finds them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import Graph, one

SLOW = "for i in $(seq 1 20); do echo line $i; sleep 0.1; done"
LINES = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "1", "CI_DAEMON_POOL_MAX_VMS": "20", "CI_DAEMON_POOL_MAX_CPU": "100"}


@pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop], ids=["kill -9", "SIGTERM"])
def test_20_running_jobs_continue_with_each_log_line_once(
    daemon: Daemon, pipeline: Pipeline, end: Callable[[Daemon], object]
):
    graph = Graph()
    for number in range(20):
        graph.step(f"job-{number}", SLOW)
    build = pipeline.build(graph.step("sink", "echo end", after=tuple(f"job-{n}" for n in range(20))).ir())
    build.says("line 3", "job-19")
    end(daemon)
    daemon.start()
    assert build.finish()["state"] == "passed"
    for key, job in build.jobs().items():
        assert (key, job["attempt"], build.log(key)) == (key, 1, "end\n" if key == "sink" else LINES)


def test_a_job_that_ended_during_downtime_is_billed_once(daemon: Daemon, pipeline: Pipeline):
    build = pipeline.build(
        Graph().step("made", "sleep 0.5; echo made > f").step("used", "cat f", builds_in="made").ir()
    )
    build.job("made", "running")
    daemon.kill()
    daemon.start()
    assert build.finish()["state"] == "passed"
    assert build.log("used") == "made\n"
    client = pipeline.client
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    assert [entry["source"] for entry in entries].count("vm_lease_debit") == 2


def test_queued_builds_and_their_order_survive(daemon: Daemon, pipeline: Pipeline):
    builds = [pipeline.build(one(f"echo {number}")) for number in range(30)]
    daemon.kill()
    daemon.start()
    for number, build in enumerate(builds):
        assert build.finish()["state"] == "passed"
        assert build.log() == f"{number}\n"


def test_a_second_daemon_on_the_same_state_is_refused(daemon: Daemon):
    second = daemon.command("serve", check=False)
    assert second.returncode == 1
    assert "already" in second.stderr
