"""Sizes of files and folders as text."""

from __future__ import annotations

_MIB, _GIB = 2**20, 2**30


def size_text(size: int) -> str:
    """Return a number of bytes in MiB or GiB: 0.3 MiB, 12.0 GiB."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.1f} MiB"
