"""Durations and relative times as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import duration

if TYPE_CHECKING:
    from datetime import datetime

_MINUTE = 60


def precise_duration(seconds: float) -> str:
    """Return a duration, with tenths of seconds below a minute."""
    return f"{seconds:.1f} s" if seconds < _MINUTE else duration(seconds)


def relative_time(at: datetime, now: datetime) -> str:
    """Return an instant relative to ``now``, in its largest unit: 42 s ago, 3 min ago, in 2 h, 4 d ago."""
    seconds = int((now - at).total_seconds())
    largest = " ".join(duration(abs(seconds)).split()[:2])
    return f"{largest} ago" if seconds >= 0 else f"in {largest}"
