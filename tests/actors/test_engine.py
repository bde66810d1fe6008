from __future__ import annotations

import errno
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import apsw
import pykka
import pytest

from actors import EngineBusy
from actors.builds.attempt.runner import AttemptRunner
from actors.builds.job import JobActor
from actors.builds.job_messages import CommandTimedOut
from actors.builds.states import Progress
from actors.builds.supervisor import BuildSupervisor
from actors.messages import BuildMessage, Granted, JobChanged, PollStorage
from actors.scheduling.pool import LeasePool
from actors.settings import ArtifactSettings, Timings
from actors.supervision import Supervised
from actors.vms import Connection, Images, Provider, VmError, VmSpec
from storage import Build, BuildState, DatabaseUnavailable, JobState, Lease, LogFiles, LogWriter, Outcome
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.records import assigned
from tests.vms.contract.conftest import Vm
from tests.waiting import until

LOUD = "\n".join(f"echo line {number}; sleep 0.2" for number in range(1, 11))
HOLD = """
import sqlite3, sys, time
sqlite3.connect(sys.argv[1], isolation_level=None).execute("BEGIN IMMEDIATE")
time.sleep(2)
"""
LINES = b"".join(b"line %d\n" % number for number in range(1, 11))


def the(kind: type[Supervised]) -> pykka.ActorRef[Supervised]:
    """Return the only running actor of a class."""
    (found,) = pykka.ActorRegistry.get_by_class(kind)
    return found


def test_a_build_runs_to_its_end_and_leaves_nothing(host: Host):
    graph = Graph().step("parent", "echo made > file").step("child", "cat file", builds_in="parent")
    build = host.build(graph.ir())
    assert host.finish(build).state == "passed"
    assert host.log(build, "child") == b"made\n"
    until(lambda: not list(host.provider.list()), "every VM gone")
    until(lambda: not list(host.provider.snapshots()), "every snapshot gone")
    until(lambda: not host.storage.leases.live(), "every lease ended")
    until(lambda: not pykka.ActorRegistry.get_by_class(BuildSupervisor), "no supervisor left")


@pytest.mark.parametrize("kind", [JobActor, BuildSupervisor, LeasePool])
def test_a_killed_actor_is_replaced_and_the_build_passes(host: Host, kind: type[Supervised]):
    build = host.build(Graph().step("first", LOUD).step("second", "echo after", after=("first",)).ir())
    host.says(build, b"line 3", "first")
    the(kind).stop(block=False)
    assert host.finish(build).state == "passed"
    assert host.log(build, "first") == LINES
    assert host.log(build, "second") == b"after\n"
    assert [host.job(build, key).attempt for key in ("first", "second")] == [1, 1]


def test_a_job_actor_that_dies_of_an_error_is_replaced_too(host: Host, monkeypatch: pytest.MonkeyPatch):
    build = host.build(one(LOUD))
    host.says(build, b"line 3")

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(JobActor, "on_error", broken)
    monkeypatch.setattr(JobActor, "handle", broken)
    the(JobActor).tell(CommandTimedOut())
    monkeypatch.undo()
    assert host.finish(build).state in {"passed", "failed"}


@pytest.mark.parametrize("state", ["running", "canceling"])
def test_a_job_of_which_every_actor_dies_fails(host: Host, monkeypatch: pytest.MonkeyPatch, state: str):
    monkeypatch.setattr(AttemptRunner, "kill", lambda _: None)
    build = host.build(one("echo begun; sleep 600"))
    host.says(build, b"begun")
    if state == "canceling":
        host.engine.cancel(build.id)
    until(lambda: host.job(build).state == state, f"the job to be {state}")

    def broken(_: JobActor) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(JobActor, "begin", broken)
    the(JobActor).stop()
    assert host.finish(build).state == ("failed" if state == "running" else "canceled")
    ended = host.job(build)
    assert (ended.state, ended.error_code) == (
        ("failed", "internal_error") if state == "running" else ("canceled", None)
    )


def test_the_next_process_ends_a_build_that_the_service_failed(host: Host, monkeypatch: pytest.MonkeyPatch):
    build = host.build(Graph().step("endless", "echo begun; sleep 600").step("next", "true", after=("endless",)).ir())
    host.says(build, b"begun", "endless")

    handle = BuildSupervisor.handle

    def broken(supervisor: BuildSupervisor, message: BuildMessage) -> None:
        if isinstance(message, JobChanged):
            raise RuntimeError("broken")
        handle(supervisor, message)

    monkeypatch.setattr(BuildSupervisor, "handle", broken)
    monkeypatch.setattr(AttemptRunner, "kill", lambda _: None)
    the(BuildSupervisor).tell(JobChanged(host.job(build, "endless").id, Progress(JobState.RUNNING, attempt=1)))
    until(lambda: host.job(build, "endless").state == "canceling", "the job's end to begin")
    failing = host.storage.builds.get(build.id)
    assert failing is not None
    assert not failing.state.terminal
    monkeypatch.undo()
    host.restart()
    ended = host.finish(build)
    assert (ended.state, ended.error_code) == ("failed", "internal_error")
    assert [host.job(build, key).state for key in ("endless", "next")] == ["canceled"] * 2
    until(lambda: not host.storage.leases.live(), "the lease's end")


def test_a_build_whose_supervisors_all_die_fails_alone(host: Host, monkeypatch: pytest.MonkeyPatch):
    poisoned = host.build(
        Graph().step("endless", "echo begun; sleep 600").step("next", "true", after=("endless",)).ir()
    )
    host.says(poisoned, b"begun", "endless")
    begin = BuildSupervisor.begin

    def broken(supervisor: BuildSupervisor) -> None:
        if supervisor.build_id == poisoned.id:
            raise RuntimeError("broken")
        begin(supervisor)

    monkeypatch.setattr(BuildSupervisor, "begin", broken)
    the(BuildSupervisor).stop()
    ended = host.finish(poisoned)
    assert (ended.state, ended.error_code) == ("failed", "internal_error")
    assert [host.job(poisoned, key).state for key in ("endless", "next")] == ["failed", "canceled"]
    noted = [(each.actor, each.action, each.subject) for each in host.storage.audit.page(10, None).rows]
    assert noted == [("ci-daemon", "forceFinishBuild", poisoned.name)]
    until(lambda: not host.storage.leases.live(), "the lease's end")
    assert host.storage.ledger.balance(poisoned.organization_id) == 0
    assert host.finish(host.build(one("true"))).state == "passed"
    assert not host.engine.broken.is_set()


def test_the_next_process_continues_the_logs_of_running_commands(host: Host):
    """The logs have no hole and no repetition."""
    build = host.build(one(LOUD))
    host.says(build, b"line 3")
    host.restart()
    assert host.finish(build).state == "passed"
    assert host.log(build) == LINES
    assert host.job(build).attempt == 1


def test_the_beginning_of_a_log_is_not_repeated_after_a_crash(host: Host):
    flaky = one('sleep 0.5; echo try $CI_ATTEMPT; test "$CI_ATTEMPT" = 2', runner_args={"retry": {"limit": 1}})
    build = host.build(flaky)
    with host.storage.logs.writer(build.uuid, host.job(build).uuid, 2) as log:
        log.notice("attempt 2")
    host.finish(build)
    assert host.log(build) == b"try 1\nattempt 2\ntry 2\n"


def test_a_job_whose_vm_is_lost_is_tried_again_unbilled(host: Host):
    build = host.build(one("echo try $CI_ATTEMPT; test $CI_ATTEMPT = 2 || sleep 600"))
    host.says(build, b"try 1")
    (lease,) = host.storage.leases.live()
    host.provider.destroy(lease.uuid)
    assert host.finish(build).state == "passed"
    assert host.job(build).attempt == 2
    lost = host.storage.leases.by_uuid(lease.uuid)
    assert lost is not None
    assert lost.amount_cents == 0


def test_a_log_of_a_killed_writer_and_vm_ends_with_its_index(host: Host):
    build = host.build(one('test "$CI_ATTEMPT" = 2 && exit; echo begun; sleep 600'))
    host.says(build, b"begun\n")
    job = host.job(build)
    host.engine.stop()
    log = host.storage.logs.reader(build.uuid, job.uuid).directory / "1.log"
    with log.open("ab") as file:
        file.write(b"what the writer did not live to enter in the index\n")
    (vm,) = host.provider.list()
    host.provider.destroy(vm)
    host.restart()
    assert host.finish(build).state == "passed"
    assert log.read_bytes() == b"begun\n"
    assert host.log(build) == b"begun\nattempt 2\n"


def test_a_job_whose_vm_is_lost_again_and_again_fails(host: Host):
    build = host.build(one("echo try $CI_ATTEMPT; sleep 600"))
    for attempt in (1, 2, 3):
        host.says(build, b"try %d" % attempt)
        (lease,) = host.storage.leases.live()
        host.provider.destroy(lease.uuid)
    assert host.finish(build).state == "failed"
    assert host.job(build).error_code == "vm_lost"


def granted(host: Host, build: Build, key: str = "only") -> Lease:
    """Assign a job its next lease, as the pool does."""
    return assigned(host.storage, host.job(build, key), image="debian:12")


def send_back(host: Host, lease: Lease) -> None:
    """Close an attempt for a retry, as a job's actor does if the retry policy covers the exit code."""
    assert lease.job_id is not None
    assert host.storage.jobs.retry(
        lease.job_id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True
    )


def test_leases_of_attempts_that_ended_in_a_crash_are_released(host: Host):
    host.engine.stop()
    keys = [f"job-{number}" for number in range(4)]
    graph = Graph()
    for key in keys:
        graph.step(key, "echo $CI_ATTEMPT")
    build = host.build(graph.ir())
    for key in keys:
        lease = granted(host, build, key)
        host.storage.leases.start(lease.id, host.job(build, key).id)
        send_back(host, lease)
    host.restart()
    assert host.finish(build).state == "passed"
    assert [host.job(build, key).attempt for key in keys] == [2] * 4
    until(lambda: not host.storage.leases.live(), "every lease ended")


def test_a_grant_that_overtakes_the_news_of_a_retry_is_not_lost(host: Host):
    build = host.build(one('echo try $CI_ATTEMPT; test "$CI_ATTEMPT" = 2 || sleep 600'))
    host.says(build, b"try 1")
    (first,) = host.storage.leases.live()
    supervisor, actor = the(BuildSupervisor), the(JobActor)
    send_back(host, first)
    supervisor.tell(Granted(build.id, granted(host, build)))
    supervisor.tell(JobChanged(host.job(build).id, Progress(JobState.SCHEDULED, attempt=1)))
    actor.stop()
    assert host.finish(build).state == "passed"


@pytest.mark.sandbox
@pytest.mark.parametrize("timings", [Timings(report=0.5)])
def test_a_vm_that_does_not_confirm_a_commands_end_is_destroyed(host: Host):
    build = host.build(one("echo begun; sleep 600"))
    host.says(build, b"begun")
    (lease,) = host.storage.leases.live()
    with Connection(host.provider.connect(lease.uuid), host.clock) as connection:
        stop = "for p in /proc/[0-9]*; do ! grep -qx supervisor $p/comm || exec kill -STOP ${p#/proc/}; done; exit 1"
        assert connection.run(stop, timeout=60).exit_code == 0
    host.engine.cancel(build.id)
    assert host.finish(build).state == "canceled"
    assert list(host.provider.list()) == []


def test_a_database_locked_for_a_while_costs_a_build_nothing(tmp_path: Path, provider: Provider, images: Images):
    graph = Graph().step("parent", "sleep 0.3; echo made > f").step("child", "cat f", builds_in="parent")
    late = Graph(timeout_seconds=1).step("long", "sleep 600").step("next", "true", after=("long",))
    with closing(Host(tmp_path, provider, images, busy_seconds=0.05)) as host:
        host.engine.start()
        first, second = host.build(graph.ir()), host.build(late.ir())
        for build, key in ((first, "parent"), (second, "long")):
            until(lambda b=build, k=key: host.job(b, k).state is JobState.RUNNING, key)
        file = host.storage.directory / "ci-daemon.sqlite3"
        subprocess.run([sys.executable, "-c", HOLD, str(file)], check=True, timeout=30)
        assert host.finish(second).state == "failed"
        assert host.job(second, "long").error_code == "pipeline_timeout"
        assert host.finish(first).state == "passed"
        until(lambda: not pykka.ActorRegistry.get_by_class(BuildSupervisor), "no supervisor left")


@pytest.mark.parametrize("kind", [LeasePool, BuildSupervisor])
def test_an_actor_without_the_database_at_its_start_starts_later(
    tmp_path: Path,
    provider: Provider,
    images: Images,
    caplog: pytest.LogCaptureFixture,
    kind: type[Supervised],
):
    """It costs the build nothing."""
    with closing(Host(tmp_path, provider, images, timings=Timings(retry=0.01), busy_seconds=0.01)) as host:
        build = host.insert(Graph().step("first", "true").step("second", "true", after=("first",)).ir())
        if kind is BuildSupervisor:  # a crash between a job's end and its consequences
            host.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
            host.storage.jobs.move(host.job(build, "first").id, JobState.SCHEDULED, JobState.PASSED)
        with closing(apsw.Connection(str(host.storage.directory / "ci-daemon.sqlite3"))) as other:
            other.execute("BEGIN IMMEDIATE")
            host.engine.start()
            until(lambda: caplog.text.count(f"{kind.__name__} (urn") > 20, "beginning again and again")
        assert host.finish(build).state == "passed"
        assert not host.engine.broken.is_set()


def test_skipping_continues_after_the_storage_was_unavailable(host: Host, monkeypatch: pytest.MonkeyPatch):
    graph = Graph().step("bad", "exit 1")
    for key, before in (("b", "bad"), ("c", "b"), ("d", "c")):
        graph.step(key, "true", after=(before,))
    move, failures = host.storage.jobs.move, iter((False, True))

    def sometimes(job_id: int, frm: JobState, to: JobState, outcome: Outcome) -> bool:
        if to is JobState.SKIPPED and next(failures, False):
            raise DatabaseUnavailable("full")
        return move(job_id, frm, to, outcome)

    monkeypatch.setattr(host.storage.jobs, "move", sometimes)
    build = host.build(graph.ir())
    assert host.finish(build).state == "failed"
    assert [host.job(build, key).state for key in "bcd"] == ["skipped"] * 3


def test_a_log_waits_for_room_on_the_hosts_disk(host: Host, monkeypatch: pytest.MonkeyPatch):
    write, full = LogWriter.output, iter((False, True, True))

    def sometimes(writer: LogWriter, *pieces: bytes | memoryview) -> None:
        if next(full, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(writer, *pieces)

    monkeypatch.setattr(LogWriter, "output", sometimes)
    build = host.build(one(LOUD))
    assert host.finish(build).state == "passed"
    assert host.log(build) == LINES


def test_a_job_without_room_for_its_log_fails_in_the_end(
    tmp_path: Path, provider: Provider, images: Images, monkeypatch: pytest.MonkeyPatch
):
    """Its reason says so, and it is not run again."""

    def full(_writer: LogWriter, *_pieces: bytes | memoryview) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LogWriter, "output", full)
    with closing(Host(tmp_path, provider, images, log_wait_seconds=0.0)) as host:
        host.engine.start()
        build = host.build(one(LOUD))
        assert host.finish(build).state == "failed"
        job = host.job(build)
    assert (job.attempt, job.error_code) == (1, "log_not_kept")
    assert "No space left on device" in str(job.error_message)


def test_a_job_waits_for_its_log_before_its_command(
    tmp_path: Path, provider: Provider, images: Images, monkeypatch: pytest.MonkeyPatch
):
    """It does not fail, however short the time is for which running commands wait."""
    opened, failing = LogFiles.writer, iter((True, True))

    def sometimes(logs: LogFiles, *place: Any) -> LogWriter:
        if next(failing, False):
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(logs, *place)

    monkeypatch.setattr(LogFiles, "writer", sometimes)
    with closing(Host(tmp_path, provider, images, log_wait_seconds=0.0)) as host:
        host.engine.start()
        build = host.build(one("echo done"))
        assert host.finish(build).state == "passed"
        assert host.log(build) == b"done\n"


def test_a_job_waits_for_a_folder_that_cannot_be_written(
    tmp_path: Path, provider: Provider, images: Images, monkeypatch: pytest.MonkeyPatch
):
    """It may be deeper than where the service looks. Anything else that is denied fails the job."""
    create = type(provider).create
    denied: Iterator[str] = iter(())

    def sometimes(provider: Provider, spec: VmSpec) -> None:
        if (path := next(denied, None)) is not None:
            raise VmError("it could not be created") from PermissionError(errno.EACCES, "Permission denied", path)
        create(provider, spec)

    monkeypatch.setattr(type(provider), "create", sometimes)
    with closing(Host(tmp_path, provider, images, timings=Timings(acquire=()))) as host:
        host.engine.start()
        denied = iter([str(host.storage.directory / "sandbox" / "vms" / "x" / "run")] * 3)
        assert host.finish(host.build(one("true"))).state == "passed"
        denied = repeat("/usr/sbin/sshd")
        assert host.finish(host.build(one("true"))).state == "failed"


def test_a_job_waits_while_the_host_has_no_room_for_its_vm(
    tmp_path: Path, provider: Provider, images: Images, monkeypatch: pytest.MonkeyPatch
):
    """It does not fail, however often its VM cannot be made meanwhile."""
    create, reasons = type(provider).create, iter(["no inodes"] * 3)

    def sometimes(provider: Provider, spec: VmSpec) -> None:
        nonlocal why
        if (why := next(reasons, None)) is not None:
            raise VmError(why)
        create(provider, spec)

    why: str | None = None
    monkeypatch.setattr(type(provider), "create", sometimes)
    monkeypatch.setattr("actors.builds.attempt.runner.why_no_files", lambda _: why)
    with closing(Host(tmp_path, provider, images, timings=Timings(acquire=()))) as host:
        host.engine.start()
        build = host.build(one("true"))
        assert host.finish(build).state == "passed"
        assert host.job(build).attempt == 1


@pytest.mark.parametrize("room_comes", [True, False])
def test_a_disk_that_the_host_has_no_room_for_waits(
    tmp_path: Path, provider: Provider, images: Images, monkeypatch: pytest.MonkeyPatch, *, room_comes: bool
):
    """A job that builds in it gets it, unless the wait takes longer than that for artifacts may."""
    snapshot, reasons = type(provider).snapshot, iter(["no inodes"] * 2)

    def sometimes(provider: Provider, vm_id: str, name: str) -> None:
        nonlocal why
        if (why := next(reasons, None) if room_comes else "no inodes") is not None:
            raise VmError(why)
        snapshot(provider, vm_id, name)

    why: str | None = None
    monkeypatch.setattr(type(provider), "snapshot", sometimes)
    monkeypatch.setattr("actors.builds.attempt.runner.why_no_files", lambda _: why)
    with closing(Host(tmp_path, provider, images)) as host:
        host.engine.start()
        host.settings = replace(host.settings, artifacts=ArtifactSettings(timeout=60 if room_comes else 0.5))
        host.restart()
        build = host.build(Graph().step("base", "true").step("next", "true", builds_in="base").ir())
        assert host.finish(build).state == ("passed" if room_comes else "failed")
        assert b"the disk waits, as the host cannot keep it: no inodes" in host.log(build, "base")
        job = host.job(build, "base")
        assert (job.attempt, job.error_code) == (1, None if room_comes else "snapshot_failed")
        assert room_comes or "the host could not keep the disk for 0.5 s: no inodes" in (job.error_message or "")


def _supervisor(folder: Path) -> int:
    """Return the id of the process that supervises the only job whose VM is below a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "comm").read_text() == "supervisor\n" and any(
                str(file.readlink()).startswith(str(folder)) for file in (process / "fd").iterdir()
            ):
                return int(process.name)
    raise ProcessLookupError(folder)


@pytest.mark.sandbox
@pytest.mark.parametrize("room_comes", [True, False])
def test_a_job_whose_vm_cannot_keep_its_output_waits(
    tmp_path: Path, provider: Provider, images: Images, *, room_comes: bool
):
    """It passes with all of it once there is room again, and fails if that takes too long."""
    with closing(Host(tmp_path, provider, images, log_wait_seconds=300.0 if room_comes else 0.5)) as host:
        host.engine.start()
        build = host.build(one("echo up; until [ -e /tmp/go ]; do sleep 0.01; done; seq 400"))
        host.says(build, b"up\n")
        supervisor = _supervisor(tmp_path)
        resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        lease = host.storage.leases.of_job(host.job(build).id)
        assert lease is not None
        vm = Vm(provider, lease.uuid)
        vm.says("touch /tmp/go")
        if room_comes:
            until(lambda: not vm.complete("pgrep seq; pgrep bash").stdout, "the command's own end")
            assert host.job(build).state == "running"
            resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert host.finish(build).state == ("passed" if room_comes else "failed")
        job, log = host.job(build), host.log(build)
    if room_comes:
        assert log.split() == [b"up", *(b"%d" % each for each in range(1, 401))]
    else:
        assert (job.exit_code, job.error_code, job.attempt) == (0, "log_not_kept", 1)
        assert log.endswith(b"the rest of the output could not be kept: File too large\n")


def test_queued_jobs_cost_no_threads(host: Host):
    before = threading.active_count()
    many = Graph()
    for number in range(900):
        many.step(f"job-{number}", "sleep 600")
    builds = [host.build(many.ir()) for _ in range(3)]
    until(lambda: len(host.storage.leases.live()) == 4, "a full host")
    assert threading.active_count() - before < 60
    for build in builds:
        with suppress(EngineBusy):  # a busy host carries out the cancel of 900 jobs later
            host.engine.cancel(build.id)
    for build in builds:
        assert host.finish(build).state == "canceled"


def test_supervisors_of_builds_that_run_nothing_are_throttled(host: Host, monkeypatch: pytest.MonkeyPatch):
    begin, go_on = BuildSupervisor.begin, threading.Event()

    def held(supervisor: BuildSupervisor) -> None:
        go_on.wait(30)
        begin(supervisor)

    host.drain()
    builds = [host.build(one("true")) for _ in range(100)]
    monkeypatch.setattr(BuildSupervisor, "begin", held)
    for build in builds:
        host.storage.builds.request_cancel(build.id)
    for _ in range(2):
        host.engine.addresses.root.ask(PollStorage())
    assert len(pykka.ActorRegistry.get_by_class(BuildSupervisor)) == 16
    go_on.set()
    for build in builds:
        assert host.finish(build).state == "canceled"


def test_a_build_with_a_vm_does_not_wait_for_the_throttle(host: Host, monkeypatch: pytest.MonkeyPatch):
    host.drain()  # the others get no VM before it
    waiting = [host.insert(one("sleep 600")) for _ in range(50)]
    begin, go_on = BuildSupervisor.begin, threading.Event()

    def held(supervisor: BuildSupervisor) -> None:
        if supervisor.build_id in {build.id for build in waiting}:
            go_on.wait(30)
        begin(supervisor)

    monkeypatch.setattr(BuildSupervisor, "begin", held)
    for build in waiting:
        host.storage.builds.request_cancel(build.id)
    until(lambda: len(pykka.ActorRegistry.get_by_class(BuildSupervisor)) >= 16, "a full throttle")
    build = host.build(one("true"), host.other_pipeline())
    host.storage.switches.resume()
    assert host.finish(build).state == "passed"
    go_on.set()
    for build in waiting:
        assert host.finish(build).state == "canceled"


def test_a_cancel_while_the_vm_is_made_leaves_none(host: Host):
    build = host.build(one("true"))
    host.engine.cancel(build.id)
    assert host.finish(build).state in {"canceled", "passed"}
    until(lambda: not host.storage.leases.live(), "every lease ended")
    until(lambda: not list(host.provider.list()), "every VM gone")


def test_a_vm_that_no_lease_names_is_reaped_at_the_start(host: Host):
    host.engine.stop()
    host.provider.create(VmSpec(id="0b8f6f0e-0f7f-4a6e-b1ac-000000000000", image="debian:12"))
    host.restart()
    until(lambda: not list(host.provider.list()), "every VM gone")


def test_waiting_jobs_say_why(host: Host):
    builds = [host.build(one("sleep 600")) for _ in range(5)]
    until(lambda: len(host.storage.leases.live()) == 4, "a full host")
    full = "waiting for a VM: host is full (4 of 4)"
    until(lambda: host.engine.pending_reason(host.job(builds[4])) == full, full)
    for build in builds:
        host.engine.cancel(build.id)
    for build in builds:
        host.finish(build)
    assert host.engine.pending_reason(host.job(builds[4])) is None


def test_restarts_of_each_supervised_actor_begin_at_zero(host: Host):
    """Prometheus, and so the alert, sees no increase in a counter that first appears with its first event."""
    samples = (sample for each in host.engine.collectors() for family in each.collect() for sample in family.samples)
    restarts = {each.labels["actor"]: each.value for each in samples if each.name == "ci_daemon_actor_restarts_total"}
    ours = {kind.__name__ for kind in Supervised.__subclasses__() if kind.__module__.startswith("actors.")}
    assert restarts == dict.fromkeys(ours - {"RootSupervisor"}, 0)
