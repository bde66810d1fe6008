"""Held VMs of failed jobs: kept if the build asks for it, counted, charged once, and gone at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pykka
import pytest

from actors.vms import CommandState, Connection, in_job, inspect
from storage import Build, BuildState, Hold, HoldEnd, JobState, Lease
from storage.database.clock import to_micros
from tests.actors.conftest import Host, images_in_memory
from tests.e2e.pipelines import Graph, one
from tests.memory.provider import MemoryProvider
from tests.state import run_sql
from tests.waiting import until


@contextmanager
def running(directory: Path, hold_seconds: int) -> Iterator[Host]:
    images = images_in_memory(directory / "images")
    host = Host(directory, MemoryProvider(images), images, hold_seconds=hold_seconds)
    host.engine.start()
    try:
        yield host
    finally:
        host.close()


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host for the whole module; each test leaves it without VMs."""
    with running(tmp_path_factory.mktemp("host"), 600) as host:
        yield host
    assert pykka.ActorRegistry.get_all() == []


def fail(host: Host, command: str = "echo trace > left; exit 3", **options: object) -> tuple[Build, Hold]:
    """Fail a build that asked for its VMs to be held; return it and its only hold."""
    build = host.build(one(command, **options), debug=True)
    assert host.finish(build).state is BuildState.FAILED
    (hold,) = host.storage.holds.open()
    return build, hold


def run(host: Host, hold: Hold, command: str) -> str:
    """Run a command in a held VM; return its output."""
    with connected(host, hold) as connection:
        return connection.run(in_job(command), timeout=30).stdout.decode()


def connected(host: Host, hold: Hold) -> Connection:
    return Connection(host.provider.connect(hold.vm), host.clock)


def debits(host: Host) -> list[tuple[str | None, int]]:
    entries = host.storage.ledger.entries(host.pipeline.organization_id)
    return [(entry.description, entry.amount_cents) for entry in entries]


def live(host: Host) -> list[Lease]:
    return host.storage.leases.live()


def release(host: Host, hold: Hold) -> None:
    """Release a hold and wait until nothing is left of its VM."""
    assert host.storage.holds.shorten(hold.id, HoldEnd.RELEASED)
    until(lambda: not live(host), "the end of the VM")
    assert list(host.provider.list()) == []
    assert host.storage.holds.open() == []
    assert host.storage.ledger.verify() == []


def test_the_vm_of_a_failed_job_is_held_until_its_release(living: Host):
    build, hold = fail(living)
    job = living.job(build)
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert job.finished_at is not None
    assert job.finished_at <= hold.started_at
    assert hold.until == hold.started_at + timedelta(seconds=600)
    assert run(living, hold, "cat /workspace/left") == "trace\n"
    state = living.storage.directory
    command = f"ci-daemon --state-dir {state} debug ada-example-org/demo/{build.number} only\n"
    assert command.encode() in living.log(build)
    assert debits(living)[-1][0] == f"demo #{build.number} only"
    living.reaper().reap()
    assert run(living, hold, "cat /workspace/left") == "trace\n"
    release(living, hold)
    assert [name for name, _ in debits(living)[-2:]] == [
        f"demo #{build.number} only",
        f"demo #{build.number} only, held",
    ]


@pytest.mark.parametrize(
    ("command", "options", "state"),
    [
        ("true", {}, JobState.PASSED),
        ("exit 1", {"runner_args": {"soft_fail": True}}, JobState.FAILED),
        ("sleep 600", {"timeout_seconds": 1}, JobState.TIMED_OUT),
        ("exit 1", {"runner_args": {"retry": {"limit": 1}}}, JobState.FAILED),
    ],
)
def test_failed_and_timed_out_jobs_are_held(living: Host, command: str, options: dict[str, object], state: JobState):
    """The VM is that of the last attempt."""
    build = living.finish(living.build(one(command, **options), debug=True))
    job = living.job(build)
    assert job.state is state
    holds = living.storage.holds.open()
    if state is JobState.PASSED:
        assert holds == []
        until(lambda: not live(living), "the end of the VM")
        return
    (hold,) = holds
    until(lambda: len(live(living)) == 1, "the end of the other attempts' VMs")
    assert live(living)[0].attempt == job.attempt
    with connected(living, hold) as connection:
        assert inspect(connection) is CommandState.ENDED
    release(living, hold)


def test_only_failures_of_builds_with_debug_are_held(living: Host):
    assert living.finish(living.build(one("exit 1"))).state is BuildState.FAILED
    build = living.build(one("echo begun; sleep 600"), debug=True)
    living.says(build, b"begun")
    living.engine.cancel(build.id)
    assert living.finish(build).state is BuildState.CANCELED
    until(lambda: not live(living), "the end of the VMs")
    assert living.storage.holds.open() == []


def test_a_build_goes_on_beside_a_held_vm_that_counts(living: Host):
    graph = Graph().step("bad", "exit 1").step("slow", "echo begun; sleep 600")
    build = living.build(graph.ir(), debug=True)
    living.says(build, b"begun", "slow")
    until(living.storage.holds.open, "the hold")
    others = [living.build(one("echo begun; sleep 600")) for _ in range(3)]
    for other in others[:2]:
        living.says(other, b"begun")
    waiting = living.job(others[2])
    reason = until(lambda: living.engine.pending_reason(waiting), "the reason")
    assert reason == "waiting for a VM: host is full (4 of 4)"
    (hold,) = living.storage.holds.open()
    assert living.storage.holds.shorten(hold.id, HoldEnd.RELEASED)
    living.says(others[2], b"begun")
    for each in (build, *others):
        living.engine.cancel(each.id)
        living.finish(each)
    until(lambda: not live(living), "the end of the VMs")


def test_the_next_engine_keeps_holds_and_ends_those_over(living: Host):
    _, hold = fail(living)
    living.restart()
    assert living.storage.holds.open() == [hold]
    assert run(living, hold, "cat /workspace/left") == "trace\n"
    living.engine.stop()
    before = len(debits(living))
    assert living.storage.holds.shorten(hold.id, HoldEnd.RELEASED)
    living.engine = living.new_engine()
    living.engine.start()
    until(lambda: not live(living), "the end of the VM")
    assert list(living.provider.list()) == []
    assert len(debits(living)) == before + 1


def test_a_held_vm_that_ends_by_itself_is_free(living: Host):
    _, hold = fail(living)
    assert isinstance(living.provider, MemoryProvider)
    living.provider.crash(hold.vm)
    living.restart()
    until(lambda: not live(living), "the end of the lease")
    assert debits(living)[-1][1] == 0
    assert living.storage.ledger.verify() == []


def test_a_hold_ends_by_itself_when_its_time_is_over(tmp_path: Path):
    with running(tmp_path, 1) as host:
        _, hold = fail(host)
        until(lambda: not live(host), "the end of the VM")
        assert list(host.provider.list()) == []
        (over,) = run_sql(host.storage.directory, "SELECT reason, finished_at FROM holds WHERE id = :id", id=hold.id)
        assert over == (HoldEnd.EXPIRED, to_micros(hold.until))
