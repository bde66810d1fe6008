"""Durations as text."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: 0.4 s, 42 s, 3 min 7 s, 2 h 5 min, 4 d 1 h."""
    if 0 < seconds < 1:
        return f"{max(seconds, 0.1):.1f} s"
    whole = max(0, int(seconds))
    for unit, name, part, part_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {part_name}"
    return f"{whole} s"
