"""Time-outs: kept by the VM even without a daemon, and by the daemon whatever its VM does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from actors import vms
from actors.messages import BuildTimedOut, RootMessage
from actors.root import RootSupervisor
from actors.settings import Timings
from actors.vms import Connection
from actors.vms.guest import command
from storage import BillingSettings, Build, Job, JobState
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.sleeper import Sleeper
from tests.waiting import until

pytestmark = pytest.mark.sandbox

#: A time-out in seconds: long enough for the VMs of a busy host to start within it, and to be seen running.
SLOW_START = 8
CENT_A_SECOND = BillingSettings(cpu=500_000, memory_gb=0, disk_gb=0)


@pytest.fixture
def billing() -> BillingSettings:
    """A VM with two CPUs costs a cent a second."""
    return CENT_A_SECOND


@pytest.fixture
def timings() -> Timings:
    """VMs have less time than the service leaves them."""
    return Timings(vm_first=0.5, report=1.0)


def ran(job: Job) -> float:
    """Return the recorded duration of a job, in seconds."""
    assert job.started_at is not None
    assert job.finished_at is not None
    return (job.finished_at - job.started_at).total_seconds()


def begin(host: Host, graph: Graph) -> Build:
    """Start a build, and wait until the start of its job ``only`` is recorded."""
    build = host.build(graph.ir())
    until(lambda: host.job(build).started_at is not None, "the start")
    return build


def away(host: Host, sleeper: Sleeper, job: Job, seconds: float) -> None:
    """Stop the engine until the sleeper has ended and the job started ``seconds`` ago; start a new one."""
    assert job.started_at is not None
    host.engine.stop()
    sleeper.wait_for(runs=False)
    back = job.started_at + timedelta(seconds=seconds)
    until(lambda: host.clock.now() > back, "the time to come back")
    host.restart()


def until_more(host: Host, build: Build) -> None:
    """Wait until a job has written more output, or is over."""
    before = host.log(build)
    until(lambda: host.job(build).state.terminal or host.log(build) != before, "more output")


class TestAway:
    def test_a_step_ends_in_time_however_often_the_daemon_restarts(self, host: Host):
        chatter = "while :; do echo x; sleep 0.05; done"
        build = host.build(one(chatter, timeout_seconds=3))
        restarts = 0
        while not host.job(build).state.terminal:
            until_more(host, build)
            host.restart()
            restarts += 1
            assert restarts < 100
        assert restarts > 2
        job = host.job(build)
        assert (job.state, job.error_code, job.exit_code) == ("timed_out", "step_timeout", 143)
        assert 2.5 < ran(job) < 7

    def test_a_step_that_ended_without_a_daemon_is_recorded(self, host: Host):
        sleeper = Sleeper()
        build = begin(host, Graph().step("only", sleeper.command, timeout_seconds=1))
        away(host, sleeper, host.job(build), seconds=2.5)
        ended = host.finish(build)
        job = host.job(build)
        assert (ended.state, ended.finished_at) == ("failed", job.finished_at)
        assert (job.state, job.error_code, job.exit_code) == ("timed_out", "step_timeout", 143)
        assert job.error_message == "the step's time-out of 1 s is over"
        assert 0.5 < ran(job) < 3
        lease = host.storage.leases.of_job(job.id)
        assert lease is not None
        assert (lease.started_at, lease.finished_at) == (job.started_at, job.finished_at)
        assert lease.amount_cents == int(ran(job))
        (debit,) = host.storage.ledger.page(build.organization_id, 10, None).rows
        assert debit.amount_cents == -lease.amount_cents

    def test_the_builds_time_out_comes_though_no_daemon_is_there(self, host: Host):
        sleeper = Sleeper()
        graph = Graph(timeout_seconds=SLOW_START).step("only", sleeper.command, timeout_seconds=600)
        build = begin(host, graph.step("next", "true", after=("only",)))
        away(host, sleeper, host.job(build), seconds=SLOW_START + 1)
        assert host.finish(build).state == "failed"
        job, waiting = host.job(build), host.job(build, "next")
        assert (job.state, job.error_code, job.exit_code) == ("timed_out", "pipeline_timeout", 143)
        assert ran(job) < SLOW_START + 1.5
        assert (waiting.state, waiting.error_code) == ("timed_out", "pipeline_timeout")

    def test_a_later_step_has_what_is_left_of_its_builds_time(self, host: Host):
        sleeper = Sleeper()
        graph = (
            Graph(timeout_seconds=SLOW_START).step("first", "sleep 1").step("only", sleeper.command, after=("first",))
        )
        build = begin(host, graph)
        away(host, sleeper, host.job(build), seconds=SLOW_START - 0.2)
        assert host.finish(build).state == "failed"
        job = host.job(build)
        assert (job.state, job.error_code) == ("timed_out", "pipeline_timeout")
        assert ran(job) < SLOW_START

    @pytest.mark.parametrize(
        ("graph", "options"),
        [(Graph(timeout_seconds=SLOW_START), {}), (Graph(), {"timeout_seconds": SLOW_START})],
        ids=["build", "step"],
    )
    def test_what_ended_in_time_passes_though_its_daemon_comes_late(
        self, host: Host, graph: Graph, options: dict[str, int]
    ):
        sleeper = Sleeper()
        quick = f"{sleeper.command} >/dev/null 2>&1 & sleep 0.5; echo done"
        graph = Graph(timeout_seconds=graph.timeout_seconds).step("only", quick, **options)
        build = begin(host, graph)
        away(host, sleeper, host.job(build), seconds=SLOW_START + 1)
        assert host.finish(build).state == "passed"
        assert host.job(build).exit_code == 0
        assert ran(host.job(build)) < SLOW_START

    def test_a_vm_that_timed_out_while_no_daemon_was_there_is_held(self, host: Host):
        sleeper = Sleeper()
        trapped = f"trap 'exit 7' TERM; {sleeper.command} & wait"
        build = host.build(one(trapped, timeout_seconds=SLOW_START), debug=True)
        sleeper.wait_for(runs=True)
        until(lambda: host.job(build).state is JobState.RUNNING, "the start")
        away(host, sleeper, host.job(build), seconds=SLOW_START + 3)
        host.finish(build)
        job = host.job(build)
        assert (job.state, job.error_code, job.exit_code) == ("timed_out", "step_timeout", 7)
        (hold,) = host.storage.holds.open()
        assert hold.job_id == job.id
        assert job.finished_at is not None
        assert hold.started_at >= job.finished_at + timedelta(seconds=1)


class TestThere:
    def test_a_time_out_is_recorded_with_the_commands_exit_code(self, host: Host):
        build = host.build(one("trap 'echo tidied; exit 0' TERM; while :; do sleep 0.05; done", timeout_seconds=1))
        assert host.finish(build).state == "failed"
        job = host.job(build)
        assert (job.state, job.error_code, job.exit_code) == ("timed_out", "step_timeout", 0)
        assert host.log(build).endswith(b"tidied\n")

    def test_each_attempt_has_the_steps_time_for_itself(self, host: Host):
        again = {"retry": {"limit": 1}}
        build = host.build(one('sleep 2.2; test "$CI_ATTEMPT" = 2', timeout_seconds=4, runner_args=again))
        assert host.finish(build).state == "passed"
        assert host.job(build).attempt == 2

    def test_a_build_time_out_seen_first_in_a_vm_ends_the_build(self, host: Host, monkeypatch: pytest.MonkeyPatch):
        handle = RootSupervisor.handle

        def late(root: RootSupervisor, message: RootMessage) -> None:
            if not isinstance(message, BuildTimedOut):
                handle(root, message)

        monkeypatch.setattr(RootSupervisor, "handle", late)
        graph = Graph(timeout_seconds=1).step("only", "sleep 600").step("next", "true", after=("only",))
        build = host.build(graph.ir())
        assert host.finish(build).state == "failed"
        for key in ("only", "next"):
            assert (host.job(build, key).state, host.job(build, key).error_code) == ("timed_out", "pipeline_timeout")


class TestAttacked:
    """A job is root in its VM, and may change programs and files there; the supervisor may fail."""

    @pytest.mark.parametrize(
        "attack",
        [
            "ln -sf /bin/true /usr/bin/nsenter",
            "ln -sf /bin/false /usr/bin/flock",
            "rm /usr/bin/flock /usr/bin/timeout /usr/bin/nsenter",
            "rm -r /bin/sh",
            "kill -STOP 1; kill -KILL 1",
            "mount -t tmpfs none /proc; rm -rf /run/*",
        ],
    )
    def test_no_job_runs_longer_than_its_time_and_its_grace(self, host: Host, attack: str):
        sleeper = Sleeper()
        build = host.build(one(f"trap '' TERM; {attack}; {sleeper.command}", timeout_seconds=1))
        assert host.finish(build, 30).state == "failed"
        sleeper.wait_for(runs=False)
        assert ran(host.job(build)) < 1 + 0.5 + 1 + 1 + 3

    @pytest.mark.parametrize("daemon", ["there", "new"])
    def test_a_stopped_supervisor_costs_its_vm(self, host: Host, daemon: str):
        sleeper = Sleeper()
        build = host.build(one(sleeper.command, timeout_seconds=SLOW_START))
        sleeper.wait_for(runs=True)
        until(lambda: host.job(build).state is JobState.RUNNING, "the start")
        with connected(host, build) as connection:
            connection.run(STOP_ALL, timeout=60)
        if daemon == "new":
            host.restart()
        assert host.finish(build, 60).state == "failed"
        sleeper.wait_for(runs=False)
        assert (host.job(build).state, host.job(build).error_code) == ("timed_out", "step_timeout")

    @pytest.mark.parametrize("daemon", ["there", "new"])
    def test_a_vm_that_says_it_ended_long_ago_pays_for_what_was_seen(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, daemon: str
    ):
        real = command.parse_result
        monkeypatch.setattr(command, "parse_result", lambda lines: replace(real(lines), seconds_ago=1e6))
        sleeper = Sleeper()
        build = host.build(one(f"{sleeper.command} & sleep 3", timeout_seconds=60))
        sleeper.wait_for(runs=True)
        if daemon == "new":
            began = until(lambda: host.job(build).started_at, "the start")
            until(lambda: host.clock.now() > began + timedelta(seconds=1.5), "a look at it")
            away(host, sleeper, host.job(build), seconds=0)
        assert host.finish(build).state == "passed"
        lease = host.storage.leases.of_job(host.job(build).id)
        assert lease is not None
        assert lease.amount_cents >= (1 if daemon == "new" else 2)

    def test_a_command_that_its_vm_forgot_is_not_started_again(self, host: Host, monkeypatch: pytest.MonkeyPatch):
        sleeper = Sleeper()
        build = host.build(one(f"echo once; {sleeper.command}", timeout_seconds=60))
        host.says(build, b"once")
        sleeper.wait_for(runs=True)
        monkeypatch.setattr(vms, "inspect", lambda _: vms.CommandState.NOT_STARTED)
        host.restart()
        host.finish(build)
        assert (host.job(build).state, host.job(build).error_code) == ("failed", "vm_lost")
        assert host.log(build) == b"once\n"
        sleeper.wait_for(runs=False)

    def test_a_supervisor_that_dies_takes_its_vm_along(self, host: Host):
        sleeper = Sleeper()
        build = host.build(one(f"echo try $CI_ATTEMPT; test $CI_ATTEMPT = 2 || {sleeper.command}", timeout_seconds=60))
        sleeper.wait_for(runs=True)
        host.says(build, b"try 1")
        with connected(host, build) as connection, suppress(vms.ConnectionLost):
            connection.run(KILL_SUPERVISOR, timeout=60)
        assert host.finish(build).state == "passed"
        assert host.job(build).attempt == 2
        sleeper.wait_for(runs=False)


KILL_SUPERVISOR = """
    for process in /proc/[0-9]*; do ! grep -qx supervisor $process/comm || exec kill -KILL ${process#/proc/}; done
    exit 1
"""
STOP_ALL = """
    for process in /proc/[0-9]*; do
        [ "$(readlink $process/ns/pid)" = "$(readlink /proc/$$/ns/pid)" ] || continue
        case ${process#/proc/} in 1 | $$ | $PPID) ;; *) kill -STOP ${process#/proc/} ;; esac
    done 2>/dev/null
"""
"""Stop every process of the VM except its init, this shell, its parent and the command's processes."""


def connected(host: Host, build: Build) -> Connection:
    """Connect to the VM of a build's job."""
    lease = host.storage.leases.of_job(host.job(build).id)
    assert lease is not None
    return Connection(host.provider.connect(lease.uuid), host.clock)
