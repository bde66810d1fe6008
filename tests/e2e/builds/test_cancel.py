"""Canceling builds at every moment of their jobs' lives."""

from __future__ import annotations

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import Graph, one


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "1", "CI_DAEMON_JOBS_KILL_GRACE": "1"}


def test_a_running_build_is_canceled_and_its_vm_is_gone(daemon: Daemon, pipeline: Pipeline):
    build = pipeline.build(Graph().step("runs", "echo begun; sleep 600").step("waits", "true", after=("runs",)).ir())
    build.says("begun", "runs")
    assert build.cancel()["state"] in {"canceling", "canceled"}
    assert build.finish()["state"] == "canceled"
    assert build.states() == {"runs": "canceled", "waits": "canceled"}
    daemon.wait_until_idle()


def test_a_queued_build_is_canceled_at_once(pipeline: Pipeline):
    running = pipeline.build(one("echo begun; sleep 600"))
    running.says("begun")
    queued = pipeline.build(one("true"))
    job = queued.jobs()["only"]
    assert job["state"] == "scheduled"
    assert job["pending_reason"] == "waiting for a VM: host is full (1 of 1)"
    assert queued.cancel()["state"] == "canceled"
    assert queued.states() == {"only": "canceled"}
    running.cancel()
    running.finish()


def test_a_command_that_ignores_term_is_killed_after_the_grace(pipeline: Pipeline):
    build = pipeline.build(one("trap '' TERM; echo begun; while :; do sleep 0.1; done"))
    build.says("begun")
    build.cancel()
    assert build.finish(20)["state"] == "canceled"


def test_a_canceled_job_is_billed_for_the_time_that_it_ran(pipeline: Pipeline):
    build = pipeline.build(one("echo begun; sleep 600"))
    build.says("begun")
    build.cancel()
    build.finish()
    client = pipeline.client
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    assert [entry["source"] for entry in entries].count("vm_lease_debit") == 1


def test_a_finished_build_stays_as_it_is(pipeline: Pipeline):
    build = pipeline.build(one("true"))
    before = build.finish()
    assert build.cancel() == before
