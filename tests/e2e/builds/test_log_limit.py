"""A log that reaches its limit says so once, over restarts, and keeps its end; its job goes on."""

from __future__ import annotations

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import one

LIMIT = 1000
PAUSE = "The log has reached 500 bytes. It goes on when the command has ended, with the last 500 bytes of its output.\n"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_JOBS_LOG_LIMIT_BYTES": str(LIMIT)}


def test_the_limit_is_noted_once_even_if_the_daemon_is_killed(daemon: Daemon, pipeline: Pipeline):
    loud = "for i in $(seq 1 60); do echo 0123456789012345678901234567890123456$((100 + i)); sleep 0.1; done; echo LAST"
    build = pipeline.build(one(loud))
    for _ in range(2):
        build.says(PAUSE)
        daemon.kill()
        daemon.start()
    assert build.finish()["state"] == "passed"
    head, tail = build.log().split(PAUSE)
    said, tail = tail.split("\n", 1)
    assert len(head) <= 501
    assert len(tail) <= 500
    left_out = 60 * 41 + 5 - len(head.rstrip("\n")) - len(tail)
    assert said == f"{left_out} bytes of output are left out here: the log keeps {LIMIT}."
    assert tail.endswith("0123456789012345678901234567890123456160\nLAST\n")


def test_each_attempt_has_a_log_and_its_last_lines(pipeline: Pipeline):
    loud = "seq 1 1000; echo LAST of attempt $CI_ATTEMPT; exit 9"
    build = pipeline.build(one(loud, runner_args={"retry": {"limit": 2, "backoff_seconds": 0}}))
    assert build.finish()["state"] == "failed"
    log = build.log()
    for attempt in (1, 2, 3):
        assert f"1000\nLAST of attempt {attempt}\n" in log
    assert log.endswith("LAST of attempt 3\n")
    assert log.count("bytes of output are left out here") == 3
    assert len(log) < 3 * (LIMIT + 300)
