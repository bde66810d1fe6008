"""A log that reaches its limit says so once, over attempts and restarts, and its job goes on."""

from __future__ import annotations

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.waiting import until

LIMIT = 1000
NOTICE = f"The log reached its limit of {LIMIT} bytes: further output is not kept.\n"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_JOBS_LOG_LIMIT_BYTES": str(LIMIT)}


def test_the_limit_is_noted_once_even_if_the_daemon_is_killed(daemon: Daemon, pipeline: Pipeline):
    loud = "for i in $(seq 1 60); do echo 0123456789012345678901234567890123456789; sleep 0.1; done"
    build = pipeline.build(one(loud))
    for _ in range(2):
        build.says(NOTICE)
        daemon.kill()
        daemon.start()
    assert build.finish()["state"] == "passed"
    log = build.log()
    assert log.count(NOTICE) == 1
    assert log.endswith(NOTICE)
    assert LIMIT - 41 <= len(log) - len(NOTICE) <= LIMIT + 1


def test_the_limit_is_a_jobs_and_not_an_attempts(pipeline: Pipeline):
    loud = "seq 1 1000; exit 1"
    build = pipeline.build(one(loud, runner_args={"retry": {"limit": 2}}))
    assert build.finish()["state"] == "failed"
    job = until(lambda: build.jobs()["only"], "the job")
    log = build.log()
    assert (job["attempt"], job["error_code"]) == (3, None)
    assert log.count(NOTICE) == 1
    assert len(log) < LIMIT + 200
