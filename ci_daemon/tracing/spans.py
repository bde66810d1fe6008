"""The trace of a build, computed from its rows. Pure.

The build's span has a child for its rendering and one for each attempt of a job; an attempt's span has a child for each
of its parts. All ids derive from the build's id, so that a trace that is sent twice is one trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from storage import BuildState, EdgeKind, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from storage import Attempt, Build, Edge, Job

__all__ = ["BuildRecord", "Span", "spans_of"]

Attributes: TypeAlias = Mapping[str, str | int | bool]

_ROOT = ""

_RESULTS = {
    BuildState.PASSED: "success",
    BuildState.FAILED: "failure",
    BuildState.CANCELED: "cancellation",
    JobState.PASSED: "success",
    JobState.FAILED: "failure",
    JobState.SKIPPED: "skip",
    JobState.CANCELED: "cancellation",
    JobState.TIMED_OUT: "timeout",
}
"""The results of pipeline runs and tasks in OpenTelemetry's semantic conventions."""


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """A build that has ended, with the rows for its trace; ``attempts`` by the row id of their job."""

    build: Build
    jobs: Sequence[Job]
    edges: Sequence[Edge]
    attempts: Mapping[int, Sequence[Attempt]]
    rendered_at: datetime | None


@dataclass(frozen=True, slots=True)
class Span:
    """A named span of time. ``failure`` is the reason if it failed, else None; cancellation is no failure."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    began: datetime
    ended: datetime
    failure: str | None
    attributes: Attributes


def spans_of(record: BuildRecord) -> Iterator[Span]:
    """Yield the spans of a build, the build's own first."""
    build = record.build
    ended = build.finished_at or build.created_at
    failure = (build.error_code or "a job failed") if build.state is BuildState.FAILED else None
    name = f"{build.pipeline_slug} #{build.number}"
    yield _span(build, _ROOT, None, name, build.created_at, ended, failure, _about_build(build))
    if record.rendered_at is not None:
        yield _span(build, "render", _ROOT, "render", build.created_at, record.rendered_at)
    parents = {edge.from_id for edge in record.edges if edge.kind is EdgeKind.BUILDS_IN}
    for job in record.jobs:
        ready = job.scheduled_at
        attempts = record.attempts.get(job.id, ())
        for attempt in attempts:
            yield from _attempt(build, job, attempt, ready or attempt.created_at, keeps_disk=job.id in parents)
            ready = attempt.finished_at
        if not attempts and ready is not None:
            about = _about_job(job, job.state)
            yield _span(build, job.uuid, _ROOT, job.name, ready, job.finished_at or ended, job.error_code, about)


def _attempt(build: Build, job: Job, attempt: Attempt, ready: datetime, *, keeps_disk: bool) -> Iterator[Span]:
    """Yield the spans of an attempt, which begins when its job became ready for a VM, and of its parts."""
    key = f"{job.uuid}/{attempt.number}"
    ended = attempt.finished_at or attempt.created_at
    passed = attempt.state is JobState.PASSED
    failure = attempt.error_code or f"exit {attempt.exit_code}"
    fault = None if passed or attempt.state is JobState.CANCELED else failure
    about = _about_job(job, attempt.state) | {"ci_daemon.attempt": attempt.number}
    if attempt.exit_code is not None:
        about["process.exit.code"] = attempt.exit_code
    yield _span(build, key, _ROOT, job.name, ready, ended, fault, about)
    parts = [
        ("wait", ready, attempt.created_at),
        ("lease", attempt.created_at, attempt.leased_at),
        ("source" if build.has_source else "start", attempt.leased_at, attempt.started_at),
        ("command", attempt.started_at, attempt.exited_at),
    ]
    if job.artifacts:
        parts.append(("artifacts", attempt.exited_at, attempt.collected_at))
    if passed and (keeps_disk or job.cache_key is not None):
        parts.append(("snapshot", attempt.collected_at or attempt.exited_at, ended))
    for name, began, over in parts:
        if began is not None:
            yield _span(build, f"{key}/{name}", key, name, began, over or ended, fault if over is None else None)


def _span(
    build: Build,
    key: str,
    parent: str | None,
    name: str,
    began: datetime,
    ended: datetime,
    failure: str | None = None,
    attributes: Attributes = MappingProxyType({}),
) -> Span:
    """Return the span with a key in the build's trace.

    Its end is not before its beginning, even if the clock was set back between them.
    """
    parent_id = None if parent is None else _id(build, parent)
    return Span(
        UUID(build.external_id).int, _id(build, key), parent_id, name, began, max(began, ended), failure, attributes
    )


def _id(build: Build, key: str) -> int:
    """Return a span id of eight bytes, never 0, which OpenTelemetry takes for no id."""
    digest = hashlib.sha256(f"{build.external_id}/{key}".encode()).digest()
    return int.from_bytes(digest[:8]) or 1


def _about_build(build: Build) -> dict[str, str | int | bool]:
    about: dict[str, str | int | bool] = {
        "cicd.pipeline.name": f"{build.organization_slug}/{build.pipeline_slug}",
        "cicd.pipeline.run.id": build.external_id,
        "cicd.pipeline.result": _RESULTS.get(build.state, build.state.value),
        "ci_daemon.build.number": build.number,
    }
    if build.branch is not None:
        about["vcs.ref.head.name"] = build.branch
    if build.commit is not None:
        about["vcs.ref.head.revision"] = build.commit
    return about


def _about_job(job: Job, state: JobState) -> dict[str, str | int | bool]:
    return {
        "cicd.pipeline.task.name": job.step_key,
        "cicd.pipeline.task.run.id": job.uuid,
        "cicd.pipeline.task.run.result": _RESULTS.get(state, state.value),
        "ci_daemon.cache_hit": job.cache_hit,
    }
