"""A build's time line: for each job a bar of its phases, to scale; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.state_looks import state_of_job
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from storage import Attempt, Job

WIDTH = 1000.0
_LEAST = 2.0


@immutable
class Bar:
    """A phase of a job: ``waiting`` for a VM, ``leasing`` one, ``running``, ``finishing`` its files."""

    phase: str
    x: float
    width: float
    seconds: float


@immutable
class Lane:
    """The bars of one job."""

    position: int
    uuid: str
    name: str
    state: str
    bars: tuple[Bar, ...]


@immutable
class TimeLine:
    """The lanes of a build's jobs, and how many seconds their ``WIDTH`` stands for."""

    lanes: tuple[Lane, ...]
    seconds: float

    @property
    def marks(self) -> tuple[tuple[float, float], ...]:
        """The place and the seconds of each mark of the scale."""
        steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
        step = next((step for step in steps if self.seconds / step <= 6), self.seconds / 6)  # noqa: PLR2004 - marks
        count = int(self.seconds / step) + 1 if self.seconds else 1
        return tuple((number * step / max(self.seconds, step) * WIDTH, number * step) for number in range(count))


def time_line(
    jobs: Sequence[Job], attempts: Mapping[int, Sequence[Attempt]], began: datetime, now: datetime
) -> TimeLine:
    """Return the time line of jobs from the moment the build was created, to its end or to ``now``."""
    ends = [job.finished_at for job in jobs]
    until = now if None in ends or not ends else max(end for end in ends if end is not None)
    whole = max((until - began).total_seconds(), 0.001)

    def bar(phase: str, start: datetime | None, end: datetime | None) -> Bar | None:
        if start is None:
            return None
        seconds = ((end or now) - start).total_seconds()
        if seconds <= 0:
            return None
        x = max(0.0, (start - began).total_seconds() / whole * WIDTH)
        return Bar(phase, min(x, WIDTH - _LEAST), max(_LEAST, min(seconds / whole * WIDTH, WIDTH - x)), seconds)

    lanes = []
    for job in jobs:
        bars: list[Bar | None] = []
        since = job.scheduled_at
        for attempt in attempts.get(job.id, ()):
            leased = attempt.leased_at or attempt.started_at
            bars.append(bar("waiting", since, attempt.created_at))
            bars.append(bar("leasing", attempt.created_at, leased or attempt.finished_at))
            exited = attempt.exited_at or attempt.finished_at
            bars.append(bar("running", leased, exited) if leased else None)
            bars.append(bar("finishing", attempt.exited_at, attempt.finished_at) if attempt.exited_at else None)
            since = attempt.finished_at
        if since is not None and job.finished_at is None and job.state.waiting:
            bars.append(bar("waiting", since, None))
        shown = tuple(each for each in bars if each is not None)
        state = state_of_job(job.state, soft_failed=job.soft_failed)
        lanes.append(Lane(job.position, job.uuid, job.name, state, shown))
    return TimeLine(tuple(lanes), whole)
