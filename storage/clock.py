"""Time as an argument: the service asks a clock, tests bring one that they can turn."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

__all__ = ["Clock", "SystemClock", "boot_id"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Where every timestamp and every duration of the service comes from."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC, with microseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds since the host was booted, which never go back nor jump, for deadlines and durations."""
        ...


class SystemClock:
    """The host's own clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC, with microseconds."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since the host was booted, which never go back nor jump, for deadlines and durations."""
        return time.monotonic()


def boot_id() -> str:
    """Name this run of the host's kernel, within which monotonic seconds can be compared."""
    return _BOOT_ID.read_text("ascii").strip()
