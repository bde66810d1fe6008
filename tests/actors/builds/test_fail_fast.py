"""Fail-fast: the jobs that the first failure cancels if the owner wants it (engine.md, "States")."""

from __future__ import annotations

import pykka
import pytest

from actors.builds.job import JobActor
from actors.builds.job_messages import CommandTimedOut
from actors.messages import Granted
from actors.root import RootSupervisor
from storage import Build, JobState, Outcome
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph
from tests.waiting import until

SLOW = "echo begun; sleep 600"


def graph() -> Graph:
    """Return a job that fails while another runs, a job that waits, and two that clean up after failures."""
    pipeline = (
        Graph().step("bad", "echo begun; sleep 0.5; exit 1").step("runs", SLOW).step("waits", "true", after=("runs",))
    )
    pipeline.step("clean", "echo cleaned", after=("runs",), even_after_failure=True)
    return pipeline.step("report", "echo reported", after=("clean",))


def check(host: Host, build: Build) -> None:
    assert host.finish(build).state == "failed"
    states = {key: host.job(build, key).state for key in ("bad", "runs", "waits", "clean", "report")}
    assert states == {"bad": "failed", "runs": "canceled", "waits": "canceled", "clean": "passed", "report": "passed"}
    ended = host.storage.builds.get(build.id)
    assert ended is not None
    assert (ended.error_code, ended.cancel_requested) == (None, False)


@pytest.mark.parametrize("whose", ["pipeline", "organization"])
def test_the_first_failure_cancels_the_rest_but_clean_ups(host: Host, whose: str):
    if whose == "pipeline":
        host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    else:
        host.storage.organizations.configure(host.pipeline.organization_id, fail_fast=True)
    check(host, host.build(graph().ir()))


def test_without_it_independent_branches_go_on(host: Host):
    build = host.build(Graph().step("bad", "exit 1").step("good", "sleep 1; echo done").ir())
    assert host.finish(build).state == "failed"
    assert host.job(build, "good").state == "passed"


def test_a_failure_that_is_forgiven_ends_nothing(host: Host):
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    soft = {"soft_fail": True}
    build = host.build(Graph().step("bad", "exit 1", runner_args=soft).step("good", "sleep 1").ir())
    assert host.finish(build).state == "passed"


def test_a_job_granted_during_its_cancel_is_canceled_too(host: Host, monkeypatch: pytest.MonkeyPatch):
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    late: list[Granted] = []
    handle = RootSupervisor.handle

    def holding(root: RootSupervisor, message: object) -> None:
        if isinstance(message, Granted) and message.lease.job_id == host.job(build, "late").id:
            late.append(message)
        else:
            handle(root, message)

    monkeypatch.setattr(RootSupervisor, "handle", holding)
    build = host.build(Graph().step("bad", SLOW).step("first", "true").step("late", SLOW, after=("first",)).ir())
    host.says(build, b"begun", "bad")
    until(lambda: late, "the grant")
    (actor,) = until(lambda: alone(pykka.ActorRegistry.get_by_class(JobActor)), "the first job's end")
    actor.tell(CommandTimedOut())
    until(lambda: host.job(build, "bad").state == "timed_out", "the failure")
    assert host.job(build, "late").state is JobState.ASSIGNED
    monkeypatch.undo()
    host.engine.addresses.root.post(late[0])
    assert host.finish(build).state == "failed"
    assert host.job(build, "late").state == "canceled"


def alone(actors: list[pykka.ActorRef[JobActor]]) -> list[pykka.ActorRef[JobActor]] | None:
    return actors if len(actors) == 1 else None


def test_the_next_process_cancels_what_a_crash_left(host: Host):
    """The crash came between the failure and the cancel of the rest."""
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    build = host.build(Graph().step("bad", SLOW).step("runs", SLOW).step("waits", "true", after=("runs",)).ir())
    for key in ("bad", "runs"):
        host.says(build, b"begun", key)
    host.engine.stop()
    bad = host.job(build, "bad")
    lease = host.storage.leases.of_job(bad.id)
    assert lease is not None
    assert host.storage.jobs.finish(
        bad.id, JobState.RUNNING, JobState.FAILED, Outcome(exit_code=1), lease_id=lease.id, billable=True
    )
    host.restart()
    assert host.finish(build).state == "failed"
    assert [host.job(build, key).state for key in ("runs", "waits")] == ["canceled"] * 2
