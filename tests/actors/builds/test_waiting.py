"""Builds that wait for their turn or an approval in a live engine, also over restarts."""

from __future__ import annotations

import json
from typing import Any

from actors import wait_reason
from storage import Build, BuildState, JobState
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.waiting import until

SLOW = 'echo begun; test "$CI_ATTEMPT" = 2 || sleep 600'


def now(host: Host, build: Build) -> Build:
    found = host.storage.builds.get(build.id)
    assert found is not None
    return found


def in_group(host: Host, group: str = "prod", limit: int = 1) -> None:
    """Put the builds of the host's pipeline that are made from now on into a group."""
    host.pipeline = host.storage.pipelines.update(host.pipeline.id, concurrency_group=group, concurrency_limit=limit)


def from_fork(host: Host, ir: str, **fields: Any) -> Build:
    return host.build(ir, untrusted_origin="pull/1/7", approval_reason="eve is not a member", **fields)


def test_builds_of_a_group_run_one_after_the_other(host: Host):
    in_group(host)
    first = host.build(one(SLOW))
    second, third = (host.build(Graph().step("a", "true").step("b", "true", after=("a",)).ir()) for _ in range(2))
    host.says(first, b"begun")
    reason = 'waiting for demo/1: the concurrency group "prod" runs 1 build at a time'
    assert wait_reason(host.storage, now(host, second)) == reason
    assert wait_reason(host.storage, now(host, third)) == f"{reason}, and 1 is before this one"
    assert wait_reason(host.storage, now(host, first)) is None
    assert now(host, second).state is BuildState.SCHEDULED
    host.engine.cancel(first.id)
    ends = [host.finish(each) for each in (second, third)]
    assert [each.state for each in ends] == [BuildState.PASSED] * 2
    started = ends[1].started_at
    assert started is not None
    assert ends[0].finished_at is not None
    assert ends[0].finished_at <= started


def test_a_turn_outlives_a_restart(host: Host):
    in_group(host)
    first, second, third = host.build(one(SLOW)), host.build(one("true")), host.build(one("true"))
    host.says(first, b"begun")
    host.restart()
    host.says(first, b"begun")
    assert [host.job(each).state for each in (second, third)] == [JobState.PENDING] * 2
    host.engine.stop()
    host.storage.builds.request_cancel(first.id)
    host.engine = host.new_engine()
    host.engine.start()
    assert [host.finish(each).state for each in (first, second, third)] == [
        BuildState.CANCELED,
        BuildState.PASSED,
        BuildState.PASSED,
    ]


def test_a_build_that_waits_is_canceled_at_once(host: Host):
    in_group(host)
    first, second, third = host.build(one(SLOW)), host.build(one("true")), host.build(one("true"))
    host.says(first, b"begun")
    host.engine.cancel(second.id)
    assert now(host, second).state is BuildState.CANCELED
    assert wait_reason(host.storage, now(host, second)) is None
    assert now(host, third).state is BuildState.SCHEDULED
    host.engine.cancel(first.id)
    assert host.finish(third).state is BuildState.PASSED


def test_a_retried_build_waits_for_its_turn_again(host: Host):
    in_group(host)
    graph = Graph().step("base", "echo base > file").step("only", SLOW, builds_in="base").step("end", "true")
    first = host.build(graph.ir())
    host.says(first, b"begun")
    second = host.build(one("sleep 600"))
    host.engine.cancel(first.id)
    host.finish(first)
    until(lambda: host.job(second).state is JobState.RUNNING, "the second build")

    host.retry(first)
    host.engine.jobs_added(first.id)
    reason = 'waiting for demo/2: the concurrency group "prod" runs 1 build at a time'
    assert wait_reason(host.storage, now(host, first)) == reason
    assert host.job(first).state is JobState.PENDING
    host.restart()
    until(lambda: host.job(second).state is JobState.RUNNING, "the second build")
    assert host.job(first).state is JobState.PENDING
    host.engine.cancel(second.id)
    assert host.finish(first).state is BuildState.PASSED


def test_a_build_of_a_fork_runs_once_it_is_approved(host: Host):
    build = from_fork(host, one("echo hello"))
    other = host.build(one("true"))
    host.finish(other)
    assert wait_reason(host.storage, now(host, build)) == "waiting for approval: eve is not a member"
    host.restart()
    assert host.job(build).state is JobState.PENDING
    host.storage.approvals.approve(build.id, "ada@example.org")  # as the command does, in another process
    assert host.finish(build).state is BuildState.PASSED


def test_a_retry_does_not_replace_an_approval(host: Host):
    build = from_fork(host, one("true"))
    host.engine.cancel(build.id)
    host.retry(build)
    host.engine.jobs_added(build.id)
    host.finish(host.build(one("true")))
    assert host.job(build).state is JobState.PENDING
    assert wait_reason(host.storage, now(host, build)) == "waiting for approval: eve is not a member"
    host.storage.approvals.approve(build.id, "ada@example.org")
    assert host.finish(build).state is BuildState.PASSED


def deploy(command: str, **keys: Any) -> str:
    """Return a pipeline in the language whose only job needs a lock."""
    job = {"run": command, "image": "debian:12", "concurrency": {"group": "deploy {branch}"}}
    return json.dumps({"version": "1", "jobs": {"other": {"run": "true", "image": "debian:12"}, "only": job}, **keys})


def test_jobs_with_a_lock_run_one_after_the_other(host: Host):
    """The builds' other jobs do not wait, and a lock outlives a restart while its job runs."""
    first, second = (host.build(deploy(SLOW)) for _ in range(2))
    host.says(first, b"begun")
    until(lambda: host.job(second, "other").state is JobState.PASSED, "the job without a lock")
    waiting = host.job(second)
    assert (waiting.state, waiting.awaits_lock) == (JobState.SCHEDULED, True)
    reason = 'waiting for the lock "deploy main", which 1 job has at a time'
    assert host.engine.pending_reason(waiting) == reason
    assert host.storage.queue.position(waiting) is None
    host.restart()
    host.says(first, b"begun")
    assert host.job(second).awaits_lock
    host.engine.cancel(first.id)
    host.finish(first)
    host.says(second, b"begun")
    host.engine.cancel(second.id)
    host.finish(second)


def test_the_file_of_a_pipeline_says_its_group(host: Host):
    first, second = (
        {
            "version": "1",
            "concurrency": {"group": "g", "cancel": True},
            "jobs": {"only": {"run": run, "image": "debian:12"}},
        }
        for run in (SLOW, "true")
    )
    older = host.build(json.dumps(first))
    host.says(older, b"begun")
    newer = host.build(json.dumps(second))
    assert host.finish(newer).state is BuildState.PASSED
    ended = now(host, older)
    assert (ended.state, ended.error_code) == (BuildState.CANCELED, "superseded")
