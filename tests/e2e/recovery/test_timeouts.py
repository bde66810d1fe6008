"""The daemon is down for longer than its jobs may run: they end in time without it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.sleeper import Sleeper
from tests.waiting import until


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "1", "CI_DAEMON_POOL_MAX_VMS": "4", "CI_DAEMON_JOBS_KILL_GRACE": "1"}


def seconds(record: dict[str, str]) -> float:
    """Return the duration of a job or a lease, in seconds."""
    began, ended = (datetime.fromisoformat(record[name]) for name in ("started_at", "finished_at"))
    return (ended - began).total_seconds()


def test_jobs_time_out_and_are_billed_while_the_daemon_is_down(daemon: Daemon, pipeline: Pipeline):
    obeys, ignores, builds = Sleeper(), Sleeper(), Sleeper()
    steps = Graph().step("obeys", obeys.command, timeout_seconds=2)
    steps.step("ignores", f"trap '' TERM; {ignores.command}; sleep 600", timeout_seconds=2)
    stepwise = pipeline.build(steps.ir())
    whole = Graph(timeout_seconds=2).step("only", builds.command).step("next", "true", after=("only",))
    buildwise = pipeline.build(whole.ir())
    for build, key in ((stepwise, "obeys"), (stepwise, "ignores"), (buildwise, "only")):
        build.job(key, "running")
    daemon.kill()
    for sleeper in (obeys, ignores, builds):
        sleeper.wait_for(runs=False)
    back = datetime.now(UTC) + timedelta(seconds=3)
    until(lambda: datetime.now(UTC) > back, "the time to come back")
    daemon.start()
    ended = stepwise.finish(), buildwise.finish()
    assert {build["state"] for build in ended} == {"failed"}
    jobs = stepwise.jobs()
    assert ended[0]["finished_at"] == max(job["finished_at"] for job in jobs.values())
    assert [(jobs[key]["state"], jobs[key]["exit_code"]) for key in jobs] == [("timed_out", 143), ("timed_out", 137)]
    assert [jobs[key]["error_code"] for key in jobs] == ["step_timeout", "step_timeout"]
    assert {(job["state"], job["error_code"]) for job in buildwise.jobs().values()} == {
        ("timed_out", "pipeline_timeout")
    }
    timed_out = [*jobs.values(), buildwise.jobs()["only"]]
    for job in timed_out:
        assert seconds(job) > 1.5, job
        assert datetime.fromisoformat(job["finished_at"]) < back, job
    client, today = pipeline.client, datetime.now(UTC).date()
    window = {"from": f"{today - timedelta(days=1)}T00:00:00Z", "to": f"{today + timedelta(days=1)}T00:00:00Z"}
    usage = client.get(f"/api/v0/billing/usage/{client.org}", params=window)
    assert usage["cpu_seconds"] == pytest.approx(sum(2 * seconds(job) for job in timed_out), abs=2 * len(timed_out))


def test_a_requested_cancel_is_done_after_a_crash(daemon: Daemon, pipeline: Pipeline):
    sleeper = Sleeper()
    build = pipeline.build(one(f"trap 'echo asked' TERM; {sleeper.command} & while :; do wait; done"))
    build.job("only", "running")
    sleeper.wait_for(runs=True)
    build.cancel()
    build.says("asked")
    daemon.kill()
    sleeper.wait_for(runs=False)
    daemon.start()
    assert build.finish()["state"] == "canceled"
    assert build.jobs()["only"]["state"] == "canceled"
