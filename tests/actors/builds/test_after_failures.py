"""Jobs that run only after a failure of what they need."""

from __future__ import annotations

import json

import pytest

from actors.builds.job_transitions import JobTransitions
from storage import JobState
from tests.actors.builds.test_retries import SECOND_TIME, retried, states
from tests.actors.conftest import Host
from tests.waiting import until


def document(**jobs: dict[str, object]) -> str:
    """Return the document of jobs; those without a command do nothing."""
    return json.dumps({"version": "1", "jobs": {key: {"run": "true"} | job for key, job in jobs.items()}})


def after_failure(*needs: str, **keys: object) -> dict[str, object]:
    return {"needs": list(needs), "when": {"status": "failed"}, **keys}


def test_what_waits_for_a_failure_survives_the_daemon(host: Host, monkeypatch: pytest.MonkeyPatch):
    """It dies between the end of what is needed, and what follows from it."""
    monkeypatch.setattr(JobTransitions, "schedule_ready", lambda _: False)
    ir = document(good={}, bad={"run": "exit 1"}, alarm=after_failure("good", "bad"), quiet=after_failure("good"))
    build = host.build(ir)
    until(lambda: host.job(build, "bad").state is JobState.FAILED, "the failure")
    until(lambda: host.job(build, "good").state is JobState.PASSED, "the other end")
    assert {host.job(build, key).state for key in ("alarm", "quiet")} == {JobState.PENDING}
    monkeypatch.undo()
    host.restart()
    assert host.finish(build).state == "failed"
    assert host.job(build, "alarm").state is JobState.PASSED
    assert (host.job(build, "quiet").state, host.job(build, "quiet").error_code) == ("skipped", "nothing_failed")


def test_a_retry_decides_anew_about_what_waits_for_a_failure(host: Host):
    ir = document(
        bad={"run": SECOND_TIME},
        alarm=after_failure("bad", run="exit 1"),
        on_its_disk={"from": "alarm"},
    )
    build = host.build(ir)
    host.finish(build)
    assert [each for each, _ in states(host, build).values()] == ["failed", "failed", "skipped"]
    retried(host, build)
    assert host.finish(build).state == "passed"
    assert [each for each, _ in states(host, build).values()] == ["passed", "skipped", "skipped"]
    assert {host.job(build, key).error_code for key in ("alarm", "on_its_disk")} == {"nothing_failed"}


def test_a_retry_leaves_what_had_no_failure_to_wait_for(host: Host):
    """Unless what it needs runs again, and fails now."""
    flaky = 'test "$CI_ATTEMPT" = 1'
    ir = document(
        base={"run": flaky},
        bad={"from": "base", "run": SECOND_TIME},
        alarm=after_failure("base"),
        good={},
        quiet=after_failure("good"),
    )
    build = host.build(ir)
    host.finish(build)
    assert {host.job(build, key).error_code for key in ("alarm", "quiet")} == {"nothing_failed"}
    retried(host, build)
    host.finish(build)
    assert states(host, build) == {
        "base": ("failed", 2),
        "bad": ("skipped", 1),
        "alarm": ("passed", 1),
        "good": ("passed", 1),
        "quiet": ("skipped", 0),
    }
