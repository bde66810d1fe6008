from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ci_daemon.tracing import Tracer, TracingSettings
from ci_daemon.tracing.spans import FinishedBuild, Span, build_spans
from storage import Build, BuildState, JobState, Outcome
from tests.clock import ManualClock
from tests.records import new_job, new_pipeline
from tests.state import new_storage
from tests.storage.world import BUILDS_IN, World
from tests.waiting import until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = ManualClock()
    storage = new_storage(tmp_path / "state", clock)
    yield World(storage, clock, new_pipeline(storage))
    storage.close()


def ended(world: World, build: Build, state: BuildState = BuildState.PASSED) -> Build:
    assert world.storage.builds.move(build.id, BuildState.SCHEDULED, state)
    found = world.storage.builds.get(build.id)
    assert found is not None
    return found


def finished(world: World, build: Build) -> FinishedBuild:
    jobs = world.jobs(build)
    attempts = {job.id: world.storage.attempts.of_job(job.id) for job in jobs}
    return FinishedBuild(build, jobs, world.storage.jobs.edges(build.id), attempts, None)


def run(world: World, build: Build, position: int, to: JobState = JobState.PASSED, **outcome: object) -> None:
    """Take a job through an attempt whose wait, lease, start, command and close take 1, 2, 3, 4 and 5 s."""
    job, clock = world.jobs(build)[position], world.clock
    clock.advance(seconds=1)
    lease = world.assign(job)
    assert lease is not None
    clock.advance(seconds=2)
    world.storage.leases.active(lease.id)
    world.storage.attempts.leased(job.id)
    clock.advance(seconds=3)
    world.storage.leases.start(lease.id, job.id)
    clock.advance(seconds=4)
    world.storage.leases.note_exit(lease.id, job.id, None)
    clock.advance(seconds=5)
    world.finish(job, lease, to=to, **outcome)
    world.storage.leases.end(lease.id)


def seconds(span: Span) -> float:
    return (span.end - span.start).total_seconds()


def children(spans: Sequence[Span], parent: Span) -> dict[str, Span]:
    return {span.name: span for span in spans if span.parent_id == parent.span_id}


def test_a_trace_says_where_the_time_of_each_attempt_went(world: World):
    build = world.build(new_job("compile"), new_job("test", (0, BUILDS_IN, False)))
    run(world, build, 0)
    test = world.jobs(build)[1]
    assert world.storage.jobs.move(test.id, JobState.PENDING, JobState.SCHEDULED)
    run(world, build, 1, JobState.FAILED, exit_code=3)
    build = ended(world, build, BuildState.FAILED)
    spans = list(build_spans(finished(world, build)))
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
    assert list(build_spans(finished(world, build))) == spans


def test_a_span_of_an_attempt_begins_where_the_last_one_ended(world: World):
    build = world.build()
    job = world.job(build)
    lease = world.assign(job)
    assert lease is not None
    world.clock.advance(seconds=7)
    lost = Outcome(error_code="vm_lost")
    assert world.storage.jobs.retry(job.id, JobState.ASSIGNED, lost, lease_id=lease.id, billable=False)
    run(world, build, 0)
    spans = list(build_spans(finished(world, ended(world, build))))
    first, second = (span for span in spans if span.parent_id == spans[0].span_id)
    assert (seconds(first), first.failure, first.attributes["ci_daemon.attempt"]) == (7, "vm_lost", 1)
    assert (seconds(second), second.failure, second.attributes["ci_daemon.attempt"]) == (15, None, 2)
    assert children(spans, first)["lease"].failure == "vm_lost"
    assert second.start == first.end


def test_a_job_without_a_vm_has_a_span_for_its_wait(world: World):
    build = world.build(new_job("waits"), new_job("skipped", (0, BUILDS_IN, False)))
    world.clock.advance(seconds=9)
    waits, skipped = world.jobs(build)
    assert world.storage.jobs.move(waits.id, JobState.SCHEDULED, JobState.CANCELED)
    assert world.storage.jobs.move(skipped.id, JobState.PENDING, JobState.CANCELED)
    spans = list(build_spans(finished(world, ended(world, build, BuildState.CANCELED))))
    assert [(span.name, seconds(span), span.failure) for span in spans] == [("web #1", 9, None), ("waits", 9, None)]


class FakeExporter:
    """An exporter whose collector accepts traces only while ``accepts`` is set."""

    def __init__(self) -> None:
        self.accepts = True
        self.called = threading.Event()
        self.accepted: list[str] = []

    def export(self, spans: Sequence[Span]) -> bool:
        self.called.set()
        if self.accepts:
            self.accepted.append(spans[0].name)
        return self.accepts

    def close(self) -> None:
        pass


def test_builds_from_before_the_traces_or_an_hour_are_left_out(world: World):
    ended(world, world.build())
    world.clock.advance(seconds=1)
    exporter = FakeExporter()
    Tracer(world.storage, exporter, world.clock).close()
    world.clock.advance(seconds=1)
    ended(world, world.build())
    world.clock.advance(minutes=40)
    ended(world, world.build())
    world.clock.advance(minutes=40)
    Tracer(world.storage, exporter, world.clock).close()
    assert exporter.accepted == ["web #3"]


def test_what_was_not_taken_is_sent_by_the_next_process(world: World):
    exporter = FakeExporter()
    tracer = Tracer(world.storage, exporter, world.clock)
    exporter.accepts = False
    world.clock.advance(seconds=1)
    ended(world, world.build())
    assert exporter.called.wait(30)
    tracer.close()
    assert exporter.accepted == []
    exporter.accepts = True
    tracer = Tracer(world.storage, exporter, world.clock)
    until(lambda: exporter.accepted, "the trace")
    tracer.close()
    Tracer(world.storage, exporter, world.clock).close()
    assert exporter.accepted == ["web #1"]


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://user:pw@host", "http://h/?q"]
)
def test_an_endpoint_other_than_an_http_url_is_refused(endpoint: str):
    with pytest.raises(ValueError, match="endpoint must be such as"):
        TracingSettings(endpoint)
