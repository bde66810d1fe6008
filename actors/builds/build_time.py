"""The time of a build, which stands still while only gates wait (engine.md, "Time limits")."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from storage import Build, Storage

Span = tuple[float, float]
"""Seconds from the start of the build, from and until."""


def seconds_in_time(until: float, held: Iterable[Span], busy: Iterable[Span]) -> float:
    """Return the seconds of a build that count: those in which no job is held, or one is busy."""
    changes = [
        (min(max(moment, 0.0), until), holds * step, works * step)
        for spans, holds, works in ((held, 1, 0), (busy, 0, 1))
        for span in spans
        for moment, step in zip(span, (1, -1), strict=True)
    ]
    counted, since, now_held, now_busy = 0.0, 0.0, 0, 0
    for moment, held_by, busy_by in [*sorted(changes), (until, 0, 0)]:
        if now_busy or not now_held:
            counted += moment - since
        since, now_held, now_busy = moment, now_held + held_by, now_busy + busy_by
    return counted


def seconds_run(storage: Storage, build: Build, until: datetime | None = None) -> float:
    """Return the seconds of its time that a build has used by a moment, now if none is given.

    A job is held from the question of its gate until it is scheduled, and busy from then on: both are on record, so
    that a restart changes nothing.
    """
    timeline, started_at = storage.timeline, build.started_at
    if started_at is None:
        return 0.0
    ran = timeline.seconds_since(started_at) if until is None else timeline.seconds_between(started_at, until)
    gates = storage.gates.of_build(build.id)
    if not gates:
        return ran

    def at(instant: datetime | None) -> float:
        return inf if instant is None else timeline.seconds_between(started_at, instant)

    jobs = storage.jobs.of_build(build.id)
    held = [(at(gates[job.id].asked_at), at(job.scheduled_at or job.finished_at)) for job in jobs if job.id in gates]
    busy = [(at(job.scheduled_at), at(job.finished_at)) for job in jobs if job.scheduled_at is not None]
    return seconds_in_time(ran, held, busy)
