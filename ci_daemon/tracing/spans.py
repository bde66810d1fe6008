"""The trace of a build, computed from its rows. Pure.

The build's span has a child for its rendering and one for each attempt of a job; an attempt's span has a child for each
of its parts. All ids derive from the build's id, so that a trace that is sent twice is one trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, assert_never
from uuid import UUID

from storage import BuildState, EdgeKind, JobState, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from storage import Attempt, Build, Edge, Job

Attributes: TypeAlias = Mapping[str, str | int | bool]

_ROOT = ""


@immutable
class FinishedBuild:
    """A build that has ended, with the rows for its trace; ``attempts`` by the row id of their job."""

    build: Build
    jobs: Sequence[Job]
    edges: Sequence[Edge]
    attempts: Mapping[int, Sequence[Attempt]]
    rendered_at: datetime | None


@immutable
class Span:
    """A named span of time. ``failure`` is the reason if it failed, else None; cancellation is no failure."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    start: datetime
    end: datetime
    failure: str | None
    attributes: Attributes


def build_spans(finished: FinishedBuild) -> Iterator[Span]:
    """Yield the spans of a build, the build's own first."""
    build = finished.build
    end = max(_end_times(finished), default=build.created_at)
    failure = (build.error_code or "a job failed") if build.state is BuildState.FAILED else None
    name = f"{build.pipeline_slug} #{build.number}"
    yield _span(build, _ROOT, None, name, build.created_at, end, failure, _build_attributes(build))
    if finished.rendered_at is not None:
        yield _span(build, "render", _ROOT, "render", build.created_at, finished.rendered_at)
    parents = {edge.from_id for edge in finished.edges if edge.kind is EdgeKind.BUILDS_IN}
    for job in finished.jobs:
        ready = job.scheduled_at
        attempts = finished.attempts.get(job.id, ())
        for attempt in attempts:
            yield from _attempt_spans(build, job, attempt, ready or attempt.created_at, keeps_disk=job.id in parents)
            ready = attempt.finished_at
        if not attempts and ready is not None:
            attributes = _job_attributes(job, job.state)
            yield _span(build, job.uuid, _ROOT, job.name, ready, job.finished_at or end, job.error_code, attributes)


def _end_times(finished: FinishedBuild) -> list[datetime]:
    """Return the ends of a build and of its attempts, which go on after the command of their job."""
    ends = [finished.build.finished_at, *(each.finished_at for each in chain.from_iterable(finished.attempts.values()))]
    return [end for end in ends if end is not None]


def _attempt_spans(build: Build, job: Job, attempt: Attempt, ready: datetime, *, keeps_disk: bool) -> Iterator[Span]:
    """Yield the spans of an attempt, which begins when its job became ready for a VM, and of its parts."""
    key = f"{job.uuid}/{attempt.number}"
    end = attempt.finished_at or attempt.created_at
    passed = attempt.state is JobState.PASSED
    unsuccessful = not passed and attempt.state is not JobState.CANCELED
    failure = (attempt.error_code or f"exit {attempt.exit_code}") if unsuccessful else None
    attributes = _job_attributes(job, attempt.state) | {"ci_daemon.attempt": attempt.number}
    if attempt.exit_code is not None:
        attributes["process.exit.code"] = attempt.exit_code
    yield _span(build, key, _ROOT, job.name, ready, end, failure, attributes)
    parts = [
        ("wait", ready, attempt.created_at),
        ("lease", attempt.created_at, attempt.leased_at),
        ("source" if build.has_source else "start", attempt.leased_at, attempt.started_at),
        ("command", attempt.started_at, attempt.exited_at),
    ]
    if job.artifacts:
        parts.append(("artifacts", attempt.exited_at, attempt.collected_at))
    if passed and (keeps_disk or job.cache_key is not None):
        parts.append(("snapshot", attempt.collected_at or attempt.exited_at, end))
    for name, start, over in parts:
        if start is not None:
            yield _span(build, f"{key}/{name}", key, name, start, over or end, failure if over is None else None)


def _span(
    build: Build,
    key: str,
    parent: str | None,
    name: str,
    start: datetime,
    end: datetime,
    failure: str | None = None,
    attributes: Attributes = MappingProxyType({}),
) -> Span:
    """Return the span with a key in the build's trace.

    Its end is not before its start, even if the clock was set back between them.
    """
    parent_id = None if parent is None else _id(build, parent)
    return Span(
        UUID(build.external_id).int, _id(build, key), parent_id, name, start, max(start, end), failure, attributes
    )


def _id(build: Build, key: str) -> int:
    """Return a span id of eight bytes, never 0, which OpenTelemetry takes for no id."""
    digest = hashlib.sha256(f"{build.external_id}/{key}".encode()).digest()
    return int.from_bytes(digest[:8]) or 1


def _build_attributes(build: Build) -> dict[str, str | int | bool]:
    attributes: dict[str, str | int | bool] = {
        "cicd.pipeline.name": f"{build.organization_slug}/{build.pipeline_slug}",
        "cicd.pipeline.run.id": build.external_id,
        "cicd.pipeline.result": _run_result(build.state),
        "ci_daemon.build.number": build.number,
    }
    if build.branch is not None:
        attributes["vcs.ref.head.name"] = build.branch
    if build.commit is not None:
        attributes["vcs.ref.head.revision"] = build.commit
    return attributes


def _job_attributes(job: Job, state: JobState) -> dict[str, str | int | bool]:
    return {
        "cicd.pipeline.task.name": job.step_key,
        "cicd.pipeline.task.run.id": job.uuid,
        "cicd.pipeline.task.run.result": _task_result(state),
        "ci_daemon.cache_hit": job.cache_hit,
    }


def _run_result(state: BuildState) -> str:
    """Return the result of a pipeline run in OpenTelemetry's semantic conventions."""
    match state:
        case BuildState.PASSED:
            return "success"
        case BuildState.FAILED:
            return "failure"
        case BuildState.CANCELED:
            return "cancellation"
        case BuildState.SCHEDULED | BuildState.RUNNING | BuildState.FAILING | BuildState.CANCELING:
            return state.value
        case _:
            assert_never(state)


def _task_result(state: JobState) -> str:
    """Return the result of a pipeline task in OpenTelemetry's semantic conventions."""
    match state:
        case JobState.PASSED:
            return "success"
        case JobState.FAILED:
            return "failure"
        case JobState.SKIPPED:
            return "skip"
        case JobState.CANCELED:
            return "cancellation"
        case JobState.TIMED_OUT:
            return "timeout"
        case JobState.PENDING | JobState.SCHEDULED | JobState.ASSIGNED | JobState.RUNNING:
            return state.value
        case JobState.CANCELING | JobState.TIMING_OUT:
            return state.value
        case _:
            assert_never(state)
