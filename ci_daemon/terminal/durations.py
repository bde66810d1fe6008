"""Durations and relative times as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["duration", "precise_duration", "relative_time"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: 42 s, 3 min 7 s, 2 h 5 min, 4 d 1 h."""
    whole = max(0, int(seconds))
    for unit, name, part, part_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {part_name}"
    return f"{whole} s"


def precise_duration(seconds: float) -> str:
    """Return a duration, with tenths of seconds below a minute."""
    return f"{seconds:.1f} s" if seconds < _MINUTE else duration(seconds)


def relative_time(at: datetime, now: datetime) -> str:
    """Return an instant relative to ``now``, in its largest unit: 42 s ago, 3 min ago, in 2 h, 4 d ago."""
    seconds = int((now - at).total_seconds())
    largest = " ".join(duration(abs(seconds)).split()[:2])
    return f"{largest} ago" if seconds >= 0 else f"in {largest}"
