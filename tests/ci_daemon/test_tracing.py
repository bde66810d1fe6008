from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ci_daemon.command.faults import FAULTS
from ci_daemon.tracing import Tracer, TracingSettings, TracingUnavailable, open_collector
from ci_daemon.tracing.spans import BuildRecord, Span, spans_of
from storage import Build, BuildState, JobState, NewPipeline, Outcome, Storage
from tests.actors.conftest import until
from tests.storage.world import BUILDS_IN, HandClock, World, new_job


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = HandClock()
    storage = Storage.create(tmp_path / "state", clock)
    owner = storage.users.create("ann@example.org", "Ann")
    organization = storage.organizations.create("Acme", "", owner.id)
    yield World(storage, clock, storage.pipelines.create(organization.id, NewPipeline("web", "Web", "r", "main")))
    storage.close()


def ended(world: World, build: Build, state: BuildState = BuildState.PASSED) -> Build:
    assert world.storage.builds.move(build.id, BuildState.SCHEDULED, state)
    found = world.storage.builds.get(build.id)
    assert found is not None
    return found


def record(world: World, build: Build) -> BuildRecord:
    jobs = world.jobs(build)
    attempts = {job.id: world.storage.attempts.of_job(job.id) for job in jobs}
    return BuildRecord(build, jobs, world.storage.jobs.edges(build.id), attempts, None)


def run(world: World, build: Build, position: int, to: JobState = JobState.PASSED, **outcome: object) -> None:
    """Take a job through an attempt whose wait, lease, start, command and close take 1, 2, 3, 4 and 5 s."""
    job, clock = world.jobs(build)[position], world.clock
    clock.turn(seconds=1)
    lease = world.assign(job)
    assert lease is not None
    clock.turn(seconds=2)
    world.storage.leases.active(lease.id)
    world.storage.attempts.leased(job.id)
    clock.turn(seconds=3)
    world.storage.leases.start(lease.id, job.id)
    clock.turn(seconds=4)
    world.storage.leases.stopped(lease.id, job.id, None)
    clock.turn(seconds=5)
    world.finish(job, lease, to=to, **outcome)
    world.storage.leases.end(lease.id)


def seconds(span: Span) -> float:
    return (span.ended - span.began).total_seconds()


def children(spans: Sequence[Span], parent: Span) -> dict[str, Span]:
    return {span.name: span for span in spans if span.parent_id == parent.span_id}


def test_a_trace_says_where_the_time_of_each_attempt_went(world: World):
    build = world.build(new_job("compile"), new_job("test", (0, BUILDS_IN, False)))
    run(world, build, 0)
    test = world.jobs(build)[1]
    assert world.storage.jobs.move(test.id, JobState.PENDING, JobState.SCHEDULED)
    run(world, build, 1, JobState.FAILED, exit_code=3)
    build = ended(world, build, BuildState.FAILED)
    spans = list(spans_of(record(world, build)))
    root = spans[0]
    assert (root.name, root.parent_id, seconds(root), root.failure) == ("web #1", None, 30, "a job failed")
    assert root.trace_id == int(build.external_id.replace("-", ""), 16)
    assert root.attributes["cicd.pipeline.result"] == "failure"
    jobs = children(spans, root)
    assert {name: (seconds(span), span.failure) for name, span in jobs.items()} == {
        "compile": (15, None),
        "test": (15, "exit 3"),
    }
    took = {"wait": 1, "lease": 2, "start": 3, "command": 4}
    assert {name: seconds(span) for name, span in children(spans, jobs["compile"]).items()} == took | {"snapshot": 5}
    assert {name: seconds(span) for name, span in children(spans, jobs["test"]).items()} == took
    assert len({span.span_id for span in spans}) == len(spans)
    assert list(spans_of(record(world, build))) == spans


def test_another_attempt_is_another_span_that_begins_where_the_last_one_ended(world: World):
    build = world.build()
    job = world.job(build)
    lease = world.assign(job)
    assert lease is not None
    world.clock.turn(seconds=7)
    lost = Outcome(error_code="vm_lost")
    assert world.storage.jobs.retry(job.id, JobState.ASSIGNED, lost, lease_id=lease.id, billable=False)
    run(world, build, 0)
    spans = list(spans_of(record(world, ended(world, build))))
    first, second = (span for span in spans if span.parent_id == spans[0].span_id)
    assert (seconds(first), first.failure, first.attributes["ci_daemon.attempt"]) == (7, "vm_lost", 1)
    assert (seconds(second), second.failure, second.attributes["ci_daemon.attempt"]) == (15, None, 2)
    assert children(spans, first)["lease"].failure == "vm_lost"
    assert second.began == first.ended


def test_a_job_that_never_had_a_vm_has_a_span_where_it_waited_for_one(world: World):
    build = world.build(new_job("waits"), new_job("skipped", (0, BUILDS_IN, False)))
    world.clock.turn(seconds=9)
    waits, skipped = world.jobs(build)
    assert world.storage.jobs.move(waits.id, JobState.SCHEDULED, JobState.CANCELED)
    assert world.storage.jobs.move(skipped.id, JobState.PENDING, JobState.CANCELED)
    spans = list(spans_of(record(world, ended(world, build, BuildState.CANCELED))))
    assert [(span.name, seconds(span), span.failure) for span in spans] == [("web #1", 9, None), ("waits", 9, None)]


class Reluctant:
    """A collector that takes traces only if told to."""

    def __init__(self) -> None:
        self.takes = True
        self.asked = threading.Event()
        self.taken: list[str] = []

    def send(self, spans: Sequence[Span]) -> bool:
        self.asked.set()
        if self.takes:
            self.taken.append(spans[0].name)
        return self.takes

    def close(self) -> None:
        pass


def test_builds_that_ended_before_the_first_time_or_an_hour_ago_are_left_out(world: World):
    ended(world, world.build())
    world.clock.turn(seconds=1)
    collector = Reluctant()
    Tracer(world.storage, collector, world.clock).close()
    world.clock.turn(seconds=1)
    ended(world, world.build())
    world.clock.turn(minutes=40)
    ended(world, world.build())
    world.clock.turn(minutes=40)
    Tracer(world.storage, collector, world.clock).close()
    assert collector.taken == ["web #3"]


def test_what_was_not_taken_is_sent_by_the_next_process(world: World):
    collector = Reluctant()
    tracer = Tracer(world.storage, collector, world.clock)
    collector.takes = False
    world.clock.turn(seconds=1)
    ended(world, world.build())
    assert collector.asked.wait(30)
    tracer.close()
    assert collector.taken == []
    collector.takes = True
    tracer = Tracer(world.storage, collector, world.clock)
    until(lambda: collector.taken or None, "the trace")
    tracer.close()
    Tracer(world.storage, collector, world.clock).close()
    assert collector.taken == ["web #1"]


def test_without_its_packages_the_command_that_adds_them_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "ci_daemon.tracing.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith("opentelemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(TracingUnavailable, match=r"-m pip install .*ci-daemon\[otlp\]"):
        open_collector(TracingSettings("http://127.0.0.1:4318"))
    assert TracingUnavailable in FAULTS


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://user:pw@host", "http://h/?q"]
)
def test_an_endpoint_that_is_no_http_url_is_refused(endpoint: str):
    with pytest.raises(ValueError, match="endpoint must be such as"):
        TracingSettings(endpoint)
