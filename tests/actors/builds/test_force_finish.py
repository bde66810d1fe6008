"""A build that the operator force-finishes in the storage while the service works on it."""

from __future__ import annotations

import logging

import pykka
import pytest

from actors import vms
from actors.builds.attempt.finalizing import Finalizer
from actors.builds.attempt.runner import AttemptRunner
from actors.builds.states import Progress
from actors.builds.supervisor import BuildSupervisor
from actors.messages import JobChanged
from storage import Build, BuildState, JobState
from tests.actors.builds.test_stopping import AFTER_START, LATER, TIMEOUT, Moment, begun
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph
from tests.memory.provider import MemoryProvider
from tests.waiting import until

MOMENTS = [
    Moment("the VM boots", MemoryProvider, "create"),
    Moment("the source is on its way", AttemptRunner, "_populate_workspace"),
    Moment("the command has started and nobody knows", vms, "start", after=True),
    Moment("running", until_log=True, ran=True),
    Moment("being killed", AttemptRunner, "kill", until_log=True, ran=True),
    Moment("finalizing", Finalizer, "finalize", command="true", ran=True),
    Moment("the snapshot is there", AttemptRunner, "snapshot", command="true", after=True, ran=True),
]


def force(host: Host, build: Build, state: BuildState = BuildState.FAILED) -> None:
    """Do what `ci-daemon build force-finish` does."""
    for lease in host.storage.force_finish.end(build.id, state, actor="ada", note="it hangs"):
        host.provider.destroy(lease.uuid)
        host.storage.leases.end(lease.id)


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_the_service_gives_way_without_a_complaint(
    host: Host, moment: Moment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    with moment.held(monkeypatch) as gate:
        build = host.build(Graph().step("only", moment.command).step("child", "true", builds_in="only").ir())
        if moment.until_log:
            host.says(build, b"begun")
        if moment.name == "being killed":
            host.engine.cancel(build.id)
        assert gate.reached.wait(TIMEOUT)
        force(host, build)
    until(lambda: not pykka.ActorRegistry.get_by_class(BuildSupervisor), "no supervisor left")
    until(lambda: not list(host.provider.list()), "every VM gone")
    until(lambda: not host.storage.leases.live(), "every lease ended")
    ended = host.storage.builds.get(build.id)
    assert ended is not None
    assert (ended.state, ended.error_code, ended.error_message) == ("failed", "internal_error", "it hangs")
    assert host.job(build).state == ("canceled" if moment.name == "being killed" else "failed")
    assert host.job(build, "child").state == "canceled"
    assert len(host.storage.ledger.page(build.organization_id, 10, None).rows) == moment.ran
    assert host.storage.ledger.verify() == []
    ours = (record for record in caplog.records if not record.name.startswith("paramiko"))
    assert [record.message for record in ours if record.levelno >= logging.ERROR] == []


def test_a_job_in_back_off_is_ended_and_leaves_its_capacity(host: Host):
    build = host.build(Graph().step("only", "exit 1", runner_args=LATER).ir())
    until(lambda: host.job(build).not_before, "the retry")
    force(host, build, BuildState.CANCELED)
    assert host.job(build).state == "canceled"
    others = [host.build(Graph().step("only", "true").ir()) for _ in range(4)]
    assert [host.finish(other).state for other in others] == ["passed"] * 4
    assert len(host.storage.attempts.of_job(host.job(build).id)) == 1


def test_a_cancel_that_another_process_asked_for_is_begun(host: Host):
    running = host.build(Graph().step("only", "echo begun; sleep 600").ir())
    host.says(running, b"begun")
    host.storage.builds.request_cancel(running.id)
    assert host.finish(running).state == "canceled"
    host.engine.drain()
    queued = host.build(Graph().step("only", "true").ir())
    host.storage.builds.request_cancel(queued.id)
    assert host.finish(queued).state == "canceled"


def test_a_cancel_asked_for_just_before_a_jobs_news_is_begun(host: Host, monkeypatch: pytest.MonkeyPatch):
    """The supervisor reads it with its build, before the poll of the storage sees it."""
    with AFTER_START.held(monkeypatch) as gate:
        build = begun(host, AFTER_START, gate)
        host.storage.builds.request_cancel(build.id)
        (supervisor,) = pykka.ActorRegistry.get_by_class(BuildSupervisor)
        for _ in range(2):
            supervisor.tell(JobChanged(host.job(build).id, Progress(JobState.ASSIGNED, attempt=1)))
    assert host.finish(build, 15).state == "canceled"
