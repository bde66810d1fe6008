"""Cancels and time-outs at exact moments of a job's life (engine.md, "States", "A job attempt")."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pykka
import pytest
from prometheus_client import CollectorRegistry

from actors import vms
from actors.builds.attempt.finalizing import Finalizer
from actors.builds.attempt.runner import AttemptRunner
from actors.builds.job import JobActor
from actors.builds.job_messages import CommandTimedOut
from actors.builds.states import JobEvent, Progress
from actors.builds.supervisor import BuildSupervisor
from actors.messages import BuildTimedOut, ChildStopped, Reschedule
from storage import Build, JobState, LogWriter
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph
from tests.memory.provider import MemoryProvider
from tests.waiting import until

TIMEOUT = 30.0


@dataclass
class Gate:
    """A point in the code where the first thread waits until the test opens it."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(TIMEOUT)


@dataclass(frozen=True)
class Moment:
    """A point at which a job is held, and the facts about it there."""

    name: str
    owner: object | None = None
    method: str = ""
    command: str = "echo begun; sleep 600"
    after: bool = False
    ran: bool = False
    drained: bool = False
    options: dict[str, object] = field(default_factory=dict)
    until_log: bool = False
    until_retry: bool = False

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def held(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
        """Stop the first thread that reaches this moment."""
        gate = Gate()
        if self.owner is None:
            gate.reached.set()
        else:
            real = getattr(self.owner, self.method)

            def stopping(*args: object, **kwargs: object) -> object:
                if not self.after:
                    gate.wait()
                result = real(*args, **kwargs)
                if self.after:
                    gate.wait()
                return result

            monkeypatch.setattr(self.owner, self.method, stopping)
        try:
            yield gate
        finally:
            gate.opened.set()


AGAIN = {"retry": {"limit": 3}}
LATER = {"retry": {"limit": 3, "backoff_seconds": 3600}}
QUEUED = Moment("queued", drained=True)
BOOTING = Moment("the VM boots", MemoryProvider, "create")
CONNECTING = Moment("the VM is there and not connected", MemoryProvider, "connect")
SOURCE = Moment("the source is on its way", AttemptRunner, "_populate_workspace")
BEFORE_START = Moment("the command is about to start", vms, "start")
AFTER_START = Moment("the command has started and nobody knows", vms, "start", after=True)
RUNNING = Moment("running", command="trap '' TERM; echo begun; sleep 600", ran=True, until_log=True)
DRAINING = Moment("draining", LogWriter, "output", command="echo begun", ran=True)
FINALIZING = Moment("finalizing", Finalizer, "finalize", command="true", ran=True)
FINALIZED = Moment("finalized and not recorded", Finalizer, "finalize", command="true", ran=True, after=True)
FREEZING = Moment("the snapshot is made", AttemptRunner, "snapshot", command="true", ran=True)
FROZEN = Moment("the snapshot is there", AttemptRunner, "snapshot", command="true", ran=True, after=True)
LEAVING = Moment(
    "the first attempt's VM goes", AttemptRunner, "release", command="exit 1", ran=True, drained=True, options=AGAIN
)
BETWEEN = Moment("between attempts", command="exit 1", ran=True, drained=True, options=AGAIN, until_retry=True)
BACKING_OFF = Moment("backing off", command="exit 1", ran=True, options=LATER, until_retry=True)
FOLLOWED = [RUNNING, DRAINING]
EVERY = [
    *(
        QUEUED,
        BOOTING,
        CONNECTING,
        SOURCE,
        BEFORE_START,
        AFTER_START,
        RUNNING,
        DRAINING,
        FINALIZING,
        FINALIZED,
        FREEZING,
    ),
    *(FROZEN, LEAVING, BETWEEN, BACKING_OFF),
]


def begun(host: Host, moment: Moment, gate: Gate) -> Build:
    """Store a build, and wait until its job is held at the moment."""
    graph = Graph(timeout_seconds=600)
    graph.step("only", moment.command, timeout_seconds=500, runner_args=moment.options)
    graph.step("child", "true", builds_in="only")
    if moment.drained and not moment.ran:
        host.engine.drain()
    build = host.build(graph.ir())
    if moment.drained and moment.ran:
        until(host.storage.leases.live, "a lease")
        host.engine.drain()
    assert gate.reached.wait(TIMEOUT)
    if moment.until_log:
        host.says(build, b"begun")
    if moment in FOLLOWED:
        until(lambda: host.job(build).state is JobState.RUNNING, "the start on record")
    if moment.until_retry:
        until(lambda: Progress.of(host.job(build)) == Progress(JobState.SCHEDULED, attempt=1), "the retry")
    return build


def check_end(host: Host, build: Build, *, ran: bool) -> None:
    """Check that nothing is left of a build that is over, and that it is charged only if a command ran."""
    until(lambda: not host.storage.leases.live(), "every lease ended")
    until(lambda: not list(host.provider.list()), "every VM gone")
    until(lambda: not pykka.ActorRegistry.get_by_class(BuildSupervisor), "no supervisor left")
    debits = host.storage.ledger.page(build.organization_id, 100, None).rows
    assert len(debits) == (1 if ran else 0)
    assert host.storage.ledger.verify() == []
    assert all(attempt.finished_at for attempt in host.storage.attempts.of_job(host.job(build).id))


@pytest.mark.parametrize("moment", EVERY, ids=str)
def test_a_cancel_meets_every_moment(host: Host, moment: Moment, monkeypatch: pytest.MonkeyPatch):
    with moment.held(monkeypatch) as gate:
        build = begun(host, moment, gate)
        host.engine.cancel(build.id)
        until(lambda: host.job(build).state in {"canceling", "canceled"}, "the cancel")
    assert host.finish(build).state == "canceled"
    assert [host.job(build, key).state for key in ("only", "child")] == ["canceled"] * 2
    assert host.job(build).error_code is None
    check_end(host, build, ran=moment.ran)


@pytest.mark.parametrize("moment", EVERY, ids=str)
def test_the_builds_time_out_meets_every_moment(host: Host, moment: Moment, monkeypatch: pytest.MonkeyPatch):
    with moment.held(monkeypatch) as gate:
        build = begun(host, moment, gate)
        host.engine.addresses.root.post(BuildTimedOut(build.id))
        until(lambda: host.job(build).state in {"timing_out", "timed_out"}, "the time-out")
    assert host.finish(build).state == "failed"
    for key in ("only", "child"):
        job = host.job(build, key)
        assert (job.state, job.error_code) == ("timed_out", "pipeline_timeout")
        assert job.error_message == "the build's time-out of 600 s is over"
    check_end(host, build, ran=moment.ran)


@pytest.mark.parametrize("moment", FOLLOWED, ids=str)
def test_the_steps_time_out_meets_its_command(host: Host, moment: Moment, monkeypatch: pytest.MonkeyPatch):
    with moment.held(monkeypatch) as gate:
        build = begun(host, moment, gate)
        (actor,) = pykka.ActorRegistry.get_by_class(JobActor)
        actor.tell(CommandTimedOut())
        until(lambda: host.job(build).state in {"timing_out", "timed_out"}, "the time-out")
    assert host.finish(build).state == "failed"
    assert (host.job(build).state, host.job(build).error_code) == ("timed_out", "step_timeout")
    assert host.job(build, "child").state == "skipped"
    check_end(host, build, ran=True)


@pytest.mark.parametrize("moment", [BOOTING, SOURCE, RUNNING, DRAINING, FINALIZING, FREEZING, FROZEN], ids=str)
@pytest.mark.parametrize("stop", ["cancel", "time out"])
def test_a_stop_that_had_begun_is_ended_by_the_next_process(
    host: Host, moment: Moment, stop: str, monkeypatch: pytest.MonkeyPatch
):
    with moment.held(monkeypatch) as gate:
        build = begun(host, moment, gate)
        if stop == "cancel":
            host.engine.cancel(build.id)
        else:
            host.engine.addresses.root.post(BuildTimedOut(build.id))
        until(lambda: host.job(build).state in {"canceling", "timing_out", "timed_out"}, "the stop")
        stopping = threading.Thread(target=host.restart)
        stopping.start()
    stopping.join()
    assert host.finish(build).state == ("canceled" if stop == "cancel" else "failed")
    wanted = ("canceled", None) if stop == "cancel" else ("timed_out", "pipeline_timeout")
    assert (host.job(build).state, host.job(build).error_code) == wanted
    check_end(host, build, ran=moment.ran)


def test_an_event_after_the_end_is_dropped_and_counted(host: Host, monkeypatch: pytest.MonkeyPatch):
    registry = CollectorRegistry()
    for collector in host.engine.collectors():
        registry.register(collector)
    counted = partial(
        registry.get_sample_value, "ci_daemon_dropped_events_total", {"state": "passed", "event": "cancel"}
    )
    held = Moment("the VM goes", AttemptRunner, "release")
    with held.held(monkeypatch) as gate:
        build = host.build(Graph().step("only", "true").step("other", "sleep 600").ir())
        assert gate.reached.wait(TIMEOUT)
        until(lambda: host.job(build).state == "passed", "the end")
        host.engine.cancel(build.id)
        until(counted, "the drop")
        assert counted() == 1
    assert host.finish(build).state == "canceled"
    assert host.job(build).state == "passed"


@pytest.mark.parametrize("stop", ["cancel", "time out"])
def test_a_stopped_job_ends_when_its_vm_is_gone(host: Host, stop: str, monkeypatch: pytest.MonkeyPatch):
    leaving = Moment("the VM goes", AttemptRunner, "release")
    with leaving.held(monkeypatch) as gate:
        build = host.build(Graph().step("only", "echo begun; sleep 600").ir())
        host.says(build, b"begun")
        if stop == "cancel":
            host.engine.cancel(build.id)
        else:
            the_job_actor().tell(JobEvent.BUILD_TIMEOUT)
        assert gate.reached.wait(TIMEOUT)
        assert host.job(build).state in {"canceling", "timing_out"}
        assert host.storage.ledger.page(build.organization_id, 1, None).rows == ()
    host.finish(build)
    assert host.job(build).state in {"canceled", "timed_out"}
    check_end(host, build, ran=True)


@pytest.mark.parametrize("stop", ["cancel", "time out"])
def test_a_stop_may_overtake_the_message_of_a_retry(host: Host, stop: str, monkeypatch: pytest.MonkeyPatch):
    sent_back = Moment("sent back", Finalizer, "record", command="exit 1", after=True, drained=True, ran=True)
    with replace(sent_back, options=AGAIN).held(monkeypatch) as gate:
        build = begun(host, replace(sent_back, options=AGAIN), gate)
        if stop == "cancel":
            host.engine.cancel(build.id)
        else:
            (supervisor,) = pykka.ActorRegistry.get_by_class(BuildSupervisor)
            host.engine.addresses.root.post(BuildTimedOut(build.id))
            host.engine.addresses.root.ask(Reschedule())
            supervisor.ask(ChildStopped("the actor of no job"))  # handled after the time-out
        assert host.job(build).state == "scheduled"
    assert host.finish(build).state == ("canceled" if stop == "cancel" else "failed")
    assert host.job(build).error_code == (None if stop == "cancel" else "pipeline_timeout")
    check_end(host, build, ran=True)


def test_the_next_process_knows_the_time_out_of_an_ending_job(host: Host, monkeypatch: pytest.MonkeyPatch):
    killing = Moment("killed", AttemptRunner, "kill")
    with killing.held(monkeypatch) as gate:
        graph = Graph().step("only", "echo begun; sleep 600", runner_args={"soft_fail": True, **AGAIN})
        build = host.build(graph.step("next", "echo goes on", after=("only",)).ir())
        host.says(build, b"begun")
        the_job_actor().tell(CommandTimedOut())
        assert gate.reached.wait(TIMEOUT)
        stopping = threading.Thread(target=host.restart)
        stopping.start()
    stopping.join()
    assert host.finish(build).state == "passed"
    ended = host.job(build)
    assert (ended.state, ended.soft_failed, ended.error_code) == ("timed_out", True, "step_timeout")
    assert ended.error_message == "the step's time-out of 3600 s is over"


def the_job_actor() -> pykka.ActorRef[JobActor]:
    """Return the only running job actor."""
    (actor,) = pykka.ActorRegistry.get_by_class(JobActor)
    return actor


def test_a_cancel_does_not_wait_for_a_vm_that_does_not_answer(host: Host, monkeypatch: pytest.MonkeyPatch):
    connect, knocked = MemoryProvider.connect, threading.Event()
    ours, silent = socket.socketpair()

    def unanswered(provider: MemoryProvider, vm_id: str) -> vms.SshEndpoint:
        real = connect(provider, vm_id)
        real.socket.close()
        knocked.set()
        return replace(real, socket=ours)

    monkeypatch.setattr(MemoryProvider, "connect", unanswered)
    with silent:
        build = host.build(Graph().step("only", "true").ir())
        assert knocked.wait(TIMEOUT)
        assert silent.recv(1)
        host.engine.cancel(build.id)
        assert host.finish(build, 15).state == "canceled"
    check_end(host, build, ran=False)


def test_a_recorded_cancel_wins_over_the_last_job(host: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host.storage.builds, "to_cancel", list)  # nobody looks before the job has ended
    with FINALIZED.held(monkeypatch) as gate:
        build = begun(host, FINALIZED, gate)
        (supervisor,) = pykka.ActorRegistry.get_by_class(BuildSupervisor)
        supervisor.ask(ChildStopped("the actor of no job"))  # it looks at the build when it hears of the start
        assert host.storage.builds.request_cancel(build.id)
    assert host.finish(build).state == "canceled"
    assert host.job(build).state is JobState.PASSED
