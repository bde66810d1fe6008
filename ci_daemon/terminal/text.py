"""Values as text for people: sizes, durations, and lines that do nothing to a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import storage

if TYPE_CHECKING:
    from datetime import datetime


def printable(value: object) -> str:
    """Return a value as one line of text.

    Unprintable characters become blanks, so that no user's text can control the terminal.
    """
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case _:
            text = str(value)
    return "".join(character if character.isprintable() else " " for character in text)


_MIB, _GIB = 2**20, 2**30


def size_text(size: int) -> str:
    """Return a number of bytes in MiB or GiB: 0.3 MiB, 12.0 GiB."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.1f} MiB"


_MINUTE = 60


def precise_duration(seconds: float) -> str:
    """Return a duration, with tenths of seconds below a minute."""
    return f"{seconds:.1f} s" if seconds < _MINUTE else storage.duration(seconds)


def relative_time(at: datetime, now: datetime) -> str:
    """Return an instant relative to ``now``, in its largest unit: 42 s ago, 3 min ago, in 2 h, 4 d ago."""
    seconds = int((now - at).total_seconds())
    largest = " ".join(storage.duration(abs(seconds)).split()[:2])
    return f"{largest} ago" if seconds >= 0 else f"in {largest}"
