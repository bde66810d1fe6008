"""Time as an argument: the service asks a clock, tests bring one that they can turn."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Where every timestamp and every duration of the service comes from."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC, with microseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for deadlines and durations."""
        ...


class SystemClock:
    """The host's own clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC, with microseconds."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back, for deadlines and durations."""
        return time.monotonic()
