"""The clock that the service reads the time from; tests pass one that they control."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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
    return _BOOT_ID.read_text("ascii").strip()
