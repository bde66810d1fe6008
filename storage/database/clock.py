"""Clocks, instants in microseconds, and durations between stored instants."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from storage.data_classes import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence


SECOND = 1_000_000
DAY = 24 * 3600 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since the epoch, without rounding errors."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds since the epoch as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
"""The file that has the id of the host's boot."""


class Clock(Protocol):
    """The source of every timestamp and duration of the service."""

    def now(self) -> datetime:
        """Return the wall-clock time as an aware datetime in UTC, with microseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds since the host booted, for deadlines and durations; they never go back or jump."""
        ...


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        """Return the wall-clock time as an aware datetime in UTC, with microseconds."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since the host booted, for deadlines and durations; they never go back or jump.

        The time in which the host is suspended counts, as for the wall clock: it is no step of that clock.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the id of the host's current boot; monotonic seconds are comparable only within one boot."""
    return BOOT_ID_FILE.read_text("ascii").strip()


_LEAST_STEP = SECOND
"""Smaller differences come from the time between two readings; they harm nothing."""

_AT_ONCE = SECOND // 100
"""Two readings belong together if they are no further apart: a process may be stopped between."""

_MOST_SEGMENTS = 64


@immutable
class Segment:
    """A stretch of time in which nobody set the wall clock, up to the next segment. All in microseconds.

    ``since`` is its begin by the clock that does not jump; ``offset`` is how far the wall clock is ahead of that one.
    """

    since: int
    offset: int

    def moved(self, by: int) -> Segment:
        """Return the same segment by a clock that counts from ``by`` microseconds earlier."""
        return Segment(self.since + by, self.offset - by)


class Timeline:
    """The steps of the wall clock that this process has seen or was told of. Safe in any thread.

    It tells durations between stored instants, although a clock may be set (engine.md, "After a crash"). Instants are
    stored by the wall clock. Another clock, which runs since the host's boot and never jumps, tells when the wall clock
    was set and by how much: their difference changes by that step. So a stored instant has a place on the clock that
    does not jump, and a duration is the distance between two places.

    The first segment has no begin: before the oldest known step the clock counts as never set. An instant that the wall
    clock showed twice is the later one, so that no limit is over too early.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        wall, uptime = self._read()
        self._segments = [Segment(uptime, wall - uptime)]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments so far, oldest first."""
        with self._lock:
            return tuple(self._segments)

    def replace(self, segments: Sequence[Segment]) -> None:
        """Take segments that an earlier process of this boot knew, oldest first; then look at the clock."""
        with self._lock:
            self._segments = list(segments)
            self._look()

    def look(self) -> tuple[int, int]:
        """Notice that the wall clock was set; return the wall time and the uptime, in microseconds."""
        with self._lock:
            return self._look()

    def seconds_since(self, moment: datetime) -> float:
        """Return the seconds since a stored moment by a clock that does not jump; at least 0."""
        with self._lock:
            _, uptime = self._look()
            return max(0, uptime - self._place(to_micros(moment), uptime)) / SECOND

    def seconds_between(self, first: datetime, second: datetime) -> float:
        """Return the seconds from one stored moment to another by a clock that does not jump."""
        with self._lock:
            _, uptime = self._look()
            return (self._place(to_micros(second), uptime) - self._place(to_micros(first), uptime)) / SECOND

    def ago(self, span: timedelta) -> datetime:
        """Return the instant before which everything stored is older than ``span``, in any case."""
        micros = round(span.total_seconds() * SECOND)
        with self._lock:
            wall, uptime = self._look()
            then = uptime - micros
            first = sum(each.since <= then for each in self._segments[1:])
            shown = [max(each.since, then) + each.offset for each in self._segments[first:]]
            return from_micros(min(wall - micros, then + self._segments[first].offset, *shown))

    def _look(self) -> tuple[int, int]:
        wall, uptime = self._read()
        if abs(wall - uptime - self._segments[-1].offset) >= _LEAST_STEP:
            self._segments = [*self._segments, Segment(uptime, wall - uptime)][-_MOST_SEGMENTS:]
        return wall, uptime

    def _read(self) -> tuple[int, int]:
        """Read both clocks at once."""
        while True:
            before = round(self._clock.monotonic() * SECOND)
            wall = to_micros(self._clock.now())
            after = round(self._clock.monotonic() * SECOND)
            if after - before <= _AT_ONCE:
                return wall, after

    def _place(self, instant: int, uptime: int) -> int:
        """Return the reading of the clock that does not jump when the wall clock showed an instant."""
        nearest, distance, until = uptime, float("inf"), uptime
        for number in reversed(range(len(self._segments))):
            segment = self._segments[number]
            place = instant - segment.offset
            begin = segment.since if number else -float("inf")
            if begin <= place <= until:
                return place
            outside = begin - place if place < begin else place - until
            if outside < distance:
                distance, nearest = outside, segment.since if place < begin else until
            until = segment.since
        return nearest


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, less one of zero: 0.4 s, 42 s, 3 min 7 s, 2 h, 4 d 1 h."""
    if 0 < seconds < 1:
        return f"{max(seconds, 0.1):.1f} s"
    whole = max(0, int(seconds))
    for unit, name, part, part_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // part
            return f"{whole // unit} {name} {rest} {part_name}" if rest else f"{whole // unit} {name}"
    return f"{whole} s"
