"""Retries of finished builds: what did not pass runs again in the same build."""

from __future__ import annotations

import threading

import pytest

from actors import retry
from actors.builds.build_supervisors import BuildSupervisors
from actors.builds.supervisor import BuildSupervisor
from actors.messages import BuildMessage, BuildTimedOut, CancelBuild, ChildStopped, Reap
from storage import Build, BuildBusy, BuildNotFinished, BuildState, JobState
from storage.builds.builds import Builds
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.waiting import until

SECOND_TIME = 'echo try $CI_ATTEMPT; test "$CI_ATTEMPT" = 2'


def now(host: Host, build: Build) -> Build:
    found = host.storage.builds.get(build.id)
    assert found is not None
    return found


def retried(host: Host, build: Build, *, announced: bool = True) -> Build:
    """Retry a finished build as soon as its last VM is gone, and tell the engine if it is ``announced``."""
    host.retry(build)
    if announced:
        host.engine.jobs_added(build.id)
    return now(host, build)


def states(host: Host, build: Build) -> dict[str, tuple[str, int]]:
    """Return the state and the number of attempts of each job."""
    return {job.step_key: (job.state.value, job.attempt) for job in host.storage.jobs.of_build(build.id)}


def debits(host: Host, build: Build) -> list[str]:
    entries = host.storage.ledger.entries(build.organization_id)
    return sorted(entry.description or "" for entry in entries if entry.source == "vm_lease_debit")


@pytest.mark.parametrize("announced", [True, False], ids=["by the API", "by the command"])
def test_what_failed_and_what_was_skipped_for_it_runs_again(host: Host, announced: bool):
    graph = Graph().step("good", "true").step("bad", SECOND_TIME).step("next", "echo on", after=("bad",))
    build = host.build(graph.step("last", "true", after=("next", "good")).ir())
    first = host.finish(build)
    assert states(host, build) == {"good": ("passed", 1), "bad": ("failed", 1), "next": ("skipped", 0)} | {
        "last": ("skipped", 0)
    }

    open_again = retried(host, build, announced=announced)
    assert (open_again.finished_at, open_again.recorded_at, open_again.started_at) == (None, None, None)
    second = host.finish(build)

    assert (first.state, second.state) == (BuildState.FAILED, BuildState.PASSED)
    assert states(host, build) == {"good": ("passed", 1), "bad": ("passed", 2), "next": ("passed", 1)} | {
        "last": ("passed", 1)
    }
    assert host.log(build, "bad") == b"try 1\nattempt 2\ntry 2\n"
    assert host.job(build, "bad").exit_code == 0
    name = f"{build.pipeline_slug} #{build.number}"
    assert debits(host, build) == sorted(f"{name} {job}" for job in ("good", "bad", "bad, again", "next", "last"))
    assert host.storage.ledger.verify() == []
    assert second.finished_at is not None
    assert first.finished_at is not None
    assert second.finished_at > first.finished_at


def test_a_retry_while_an_actor_is_seen_to_stop_is_kept(host: Host, monkeypatch: pytest.MonkeyPatch):
    """The supervisor has taken the build for finished when another process retries it."""
    handle, retries = BuildSupervisor.handle, list[Build]()

    def stopped_after_a_retry(supervisor: BuildSupervisor, message: BuildMessage) -> None:
        if isinstance(message, ChildStopped) and not retries:
            retries.append(retried(host, build, announced=False))
        handle(supervisor, message)

    monkeypatch.setattr(BuildSupervisor, "handle", stopped_after_a_retry)
    build = host.build(one('test "$CI_ATTEMPT" = 2'))
    until(lambda: retries, "the retry")
    assert host.finish(build).state is BuildState.PASSED
    assert (host.job(build).state, host.job(build).attempt) == (JobState.PASSED, 2)


def test_one_job_runs_again_with_what_was_skipped_after_it(host: Host):
    graph = Graph().step("one", SECOND_TIME).step("two", SECOND_TIME).step("next", "true", after=("one",))
    build = host.build(graph.step("both", "true", after=("one", "two")).ir())
    host.finish(build)

    def begun(key: str) -> bool:
        try:
            return retry(host.storage, now(host, build), host.job(build, key))
        except BuildBusy:
            return False

    assert not begun("next"), "what it needs has failed"
    host.retry(build, "one")
    host.engine.jobs_added(build.id)
    assert host.finish(build).state is BuildState.FAILED
    first = {"one": ("passed", 2), "two": ("failed", 1), "next": ("passed", 1), "both": ("skipped", 0)}
    assert states(host, build) == first
    assert not begun("one")
    host.retry(build, "two")
    host.engine.jobs_added(build.id)
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == first | {"two": ("passed", 2), "both": ("passed", 1)}


def test_a_build_that_passed_has_nothing_to_retry(host: Host):
    build = host.build(one("true"))
    host.finish(build)
    assert not retry(host.storage, now(host, build))
    assert now(host, build).state is BuildState.PASSED


def test_jobs_in_whose_disk_it_builds_run_again(host: Host):
    graph = Graph().step("base", "echo base > file").step("mid", "cat file; echo mid > more", builds_in="base")
    graph.step("other", "true", builds_in="base")
    build = host.build(graph.step("leaf", f"cat file; cat more; {SECOND_TIME}", builds_in="mid").ir())
    host.finish(build)
    kept = until(host.storage.kept_disks.all, "the disk of the failed job, which keeps those below it")
    host.storage.kept_disks.drop(each.snapshot for each in kept)  # as after some days
    host.engine.addresses.root.post(Reap())
    until(lambda: not host.storage.snapshots.all(), "the end of the disks")
    retried(host, build)
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == {"base": ("passed", 2), "mid": ("passed", 2), "other": ("passed", 1)} | {
        "leaf": ("passed", 2)
    }
    assert host.log(build, "leaf") == b"base\nmid\ntry 1\nattempt 2\nbase\nmid\ntry 2\n"


def test_a_cached_parent_passes_at_once(host: Host):
    graph = Graph().step("base", "echo base > file", cache={"policy": "forever", "key": "k"})
    build = host.build(graph.step("leaf", f"cat file; {SECOND_TIME}", builds_in="base").ir())
    host.finish(build)
    retried(host, build)
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == {"base": ("passed", 1), "leaf": ("passed", 2)}
    assert host.job(build, "base").cache_hit


def test_a_canceled_build_runs_on(host: Host):
    graph = (
        Graph().step("slow", 'echo begun; test "$CI_ATTEMPT" = 2 || sleep 600').step("next", "true", after=("slow",))
    )
    build = host.build(graph.ir())
    host.says(build, b"begun", "slow")
    host.engine.cancel(build.id)
    assert host.finish(build).state is BuildState.CANCELED
    assert not retried(host, build).cancel_requested
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == {"slow": ("passed", 2), "next": ("passed", 1)}


@pytest.mark.parametrize("forced", [False, True], ids=["after its end", "after its end by force"])
def test_a_retry_right_at_the_end_of_a_build_runs_it_whole(host: Host, monkeypatch: pytest.MonkeyPatch, forced: bool):
    """Another process retries the build before the supervisor has handled its end, or has written it."""
    conclude, retries = Builds.conclude, list[Build]()

    def retried_at_once(builds: Builds, build_id: int, old: BuildState, new: BuildState) -> Build | None:
        if retries:
            return conclude(builds, build_id, old, new)
        if forced:
            host.storage.force_finish.end(build_id, BuildState.FAILED, actor="owner", note="it hangs")
        ended = None if forced else conclude(builds, build_id, old, new)
        retries.append(retried(host, build, announced=False))
        return conclude(builds, build_id, old, new) if forced else ended

    monkeypatch.setattr(Builds, "conclude", retried_at_once)
    build = host.build(Graph().step("bad", SECOND_TIME).step("next", "true", after=("bad",)).ir())
    until(lambda: retries, "the retry")
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == {"bad": ("passed", 2), "next": ("passed", 1)}


def test_a_job_that_timed_out_runs_again(host: Host):
    slow = 'test "$CI_ATTEMPT" = 2 || sleep 600'
    build = host.build(one(slow, timeout_seconds=1))
    host.finish(build)
    assert host.job(build).state is JobState.TIMED_OUT
    retried(host, build)
    assert host.finish(build).state is BuildState.PASSED
    assert (host.job(build).error_code, host.job(build).error_message) == (None, None)


def test_alarms_and_cancels_from_before_a_retry_are_ignored(host: Host):
    build = host.build(one('echo begun $CI_ATTEMPT; test "$CI_ATTEMPT" = 2 || exit 1; sleep 2'))
    first = host.finish(build)
    retried(host, build)
    host.says(build, b"begun 2")
    recorded = threading.Event()
    host.engine.addresses.root.post(CancelBuild(build.id, recorded))
    host.engine.addresses.root.post(BuildTimedOut(build.id, first.started_at))
    assert recorded.wait(60)
    assert host.finish(build).state is BuildState.PASSED
    assert host.job(build).state is JobState.PASSED


def test_a_soft_failure_stays(host: Host):
    graph = Graph().step("soft", "exit 1", runner_args={"soft_fail": True}).step("bad", SECOND_TIME, after=("soft",))
    build = host.build(graph.ir())
    host.finish(build)
    retried(host, build)
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == {"soft": ("failed", 1), "bad": ("passed", 2)}


def test_a_retry_that_fails_too_fails_fast_and_is_retried_again(host: Host):
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    bad = 'test "$CI_ATTEMPT" = 3'
    build = host.build(Graph().step("bad", bad).step("slow", 'test "$CI_ATTEMPT" = 3 || sleep 600').ir())
    for attempt in (1, 2):
        assert host.finish(build).state is BuildState.FAILED
        assert host.job(build, "bad").attempt == attempt
        assert host.job(build, "slow").state is JobState.CANCELED
        retried(host, build)
    assert host.finish(build).state is BuildState.PASSED
    assert host.storage.ledger.verify() == []


def test_each_run_has_the_retries_of_the_policy(host: Host):
    build = host.build(one('test "$CI_ATTEMPT" = 4', runner_args={"retry": {"limit": 1}}))
    host.finish(build)
    assert states(host, build) == {"only": ("failed", 2)}
    retried(host, build)
    assert host.finish(build).state is BuildState.PASSED
    assert states(host, build) == {"only": ("passed", 4)}


def test_a_retry_outlives_the_service(host: Host):
    """It is made while no service runs, and its job is attached to after another restart."""
    build = host.build(one('echo begun $CI_ATTEMPT; test "$CI_ATTEMPT" = 2 || exit 1; sleep 2'))
    host.finish(build)
    until(lambda: not _live(host), "the end of its VM")
    host.engine.stop()
    host.retry(build)
    host.restart()
    host.says(build, b"begun 2")
    host.restart()
    assert host.finish(build).state is BuildState.PASSED
    assert host.log(build) == b"begun 1\nattempt 2\nbegun 2\n"
    assert host.storage.ledger.verify() == []


def _live(host: Host) -> bool:
    return any(lease.job_id is not None for lease in host.storage.leases.live())


def test_a_supervisor_that_is_still_there_takes_the_retry(host: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(BuildSupervisors, "dismiss", lambda *_: False)
    build = host.build(Graph().step("bad", SECOND_TIME).step("next", "true", after=("bad",)).ir())
    host.finish(build)
    retried(host, build)
    assert host.finish(build).state is BuildState.PASSED


def test_of_two_retries_at_once_one_counts(host: Host):
    build = host.build(one("exit 1"))
    finished = host.finish(build)
    retried(host, build)
    with pytest.raises(BuildNotFinished):
        retry(host.storage, finished)
    host.finish(build)
    assert states(host, build) == {"only": ("failed", 2)}


def test_expiry_spares_a_build_that_is_retried_meanwhile(host: Host):
    build = host.build(one(SECOND_TIME), source_archive=b"")
    host.storage.builds.request_cancel(build.id)
    host.engine.cancel(build.id)
    host.finish(build)
    kept = host.storage.log_retention
    kept.measure()
    due = list(kept.oldest_first())
    host.drain()
    retried(host, build)
    kept.expire(due)
    assert now(host, build).logs_expired_at is None
