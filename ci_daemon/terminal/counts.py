"""Numbers of things in sentences: "1 file", "2 files"."""

from __future__ import annotations


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number with the word for what it counts; ``several`` is ``one`` and an s by default."""
    return f"{number} {one if number == 1 else several or one + 's'}"
