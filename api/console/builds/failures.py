"""The jobs that failed a build, each with the end of its log, and the jobs beside one as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import plain_text
from api.state_looks import state_of_job, worst
from storage import duration, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from api.console.builds.states import BuildView, JobView
    from api.http.files import ByteSource
    from storage import Build, Job, LogFiles

_MOST_SHOWN = 10
_LINES = 15
_MARKS = 15
"""The marks of groups that may stand between the lines."""

_TAIL_BYTES = 16 * 2**10
_COUNTED_BYTES = 2**20
"""The size of a log up to which its lines are counted; a longer one is opened at its end."""

_LONGEST_LINE = 500
_DEEPEST = 6
_OF_FAILURE = pattern(
    r"(?i)\b(?:\w{0,60}errors?|fail(?:ed|ure|s)?|fatal|panic|traceback|\w{0,60}exception|not found|denied)\b"
)
_GROUP = pattern(r"^::group::(.*)")
_NO_FAILURE = pattern(r"(?i)\b(?:0|no) (?:errors?|fail(?:ed|ures?))\b")


@immutable
class Tail:
    """The last lines of a log as plain text, of which the one at ``at`` tells of the failure, if any does.

    ``line`` is the number of the line to open, from 1, None if the lines before were not counted.
    """

    lines: tuple[str, ...] = ()
    at: int | None = None
    line: int | None = None


@immutable
class FailedJob:
    """A job that failed its build, with the end of its log."""

    job: JobView
    tail: Tail


def failed_jobs(view: BuildView, logs: LogFiles) -> list[FailedJob]:
    """Return the first jobs that failed a build, with the ends of their logs unless these have expired."""
    return [FailedJob(job, _tail(view.build, job, logs)) for job in view.failed[:_MOST_SHOWN]]


def _tail(build: Build, job: JobView, logs: LogFiles) -> Tail:
    if build.logs_expired_at is not None:
        return Tail()
    log = logs.reader(build.uuid, job.uuid)
    return tail_of(log, log.size())


def tail_of(log: ByteSource, size: int) -> Tail:
    """Return the last lines of a log's first ``size`` bytes.

    The line to open is the first of them that tells of a failure, or else the last. Of the marks of groups there are
    the titles alone.
    """
    counted = size <= _COUNTED_BYTES
    data = log.read(0, size) if counted else log.read(size - _TAIL_BYTES, _TAIL_BYTES)
    before, end = data[:-_TAIL_BYTES], data[-_TAIL_BYTES:]
    texts = end.removesuffix(b"\n").split(b"\n") if end else []
    first = before.count(b"\n") + max(0, len(texts) - _LINES - _MARKS) + 1
    read = (plain_text(text.decode("utf-8", "replace"))[:_LONGEST_LINE] for text in texts[-_LINES - _MARKS :])
    shown = [
        (number, line if (mark := _GROUP.match(line)) is None else mark[1])
        for number, line in enumerate(read, first)
        if not line.startswith("::endgroup::")
    ][-_LINES:]
    lines = tuple(line for _, line in shown)
    told = (at for at, line in enumerate(lines) if _OF_FAILURE.search(line) and not _NO_FAILURE.search(line))
    at = next(told, None)
    return Tail(lines, at, shown[-1 if at is None else at][0] if lines and counted else None)


@immutable
class Sibling:
    """A job in the list beside a log, or a matrix with its ``cells``.

    ``level`` is its depth below the jobs that it waits for.
    """

    name: str
    state: str
    level: int
    uuid: str = ""
    took: str = ""
    current: bool = False
    cells: tuple[Sibling, ...] = ()

    @property
    def opens(self) -> bool:
        """True if one of its cells is shown."""
        return any(cell.current for cell in self.cells)


def siblings_of(jobs: Sequence[Job], shown: str) -> tuple[Sibling, ...]:
    """Return the jobs of a build, each below the last one before it that it waits for.

    A matrix is one entry.
    ``shown`` is the UUID of the job whose page has the list.
    """
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.matrix_job or job.uuid, []).append(job)
    keys = list(groups)
    place = {job.uuid: at for at, key in enumerate(keys) for job in groups[key]}
    below: dict[int, list[int]] = {}
    for at, key in enumerate(keys):
        above = {place[each] for job in groups[key] for each in job.depends_on if place.get(each, at) < at}
        below.setdefault(max(above, default=-1), []).append(at)
    return tuple(_sibling(keys[at], groups[keys[at]], level, shown) for at, level in _walked(below))


def _walked(below: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield places and levels of a forest, each before those below it."""
    waiting = [(at, 0) for at in reversed(below.get(-1, []))]
    while waiting:
        at, level = waiting.pop()
        yield at, min(level, _DEEPEST)
        waiting += ((each, level + 1) for each in reversed(below.get(at, [])))


def _sibling(key: str, jobs: Sequence[Job], level: int, shown: str) -> Sibling:
    cells = tuple(
        Sibling(job.name, _shown(job), level, job.uuid, _took(job), current=job.uuid == shown) for job in jobs
    )
    return cells[0] if len(cells) == 1 else Sibling(key, worst({_shown(job) for job in jobs}), level, cells=cells)


def _shown(job: Job) -> str:
    return state_of_job(job.state, soft_failed=job.soft_failed)


def _took(job: Job) -> str:
    if job.started_at is None or job.finished_at is None:
        return ""
    return duration((job.finished_at - job.started_at).total_seconds())
