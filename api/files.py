"""Files on the disk as sources of responses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["StoredFile"]


class StoredFile:
    """A file on the disk as a source. It is open only during a read, however slow the client is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int | None:
        """Return the size in bytes; None if the file does not exist."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``. Raises FileNotFoundError."""
        with self.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)
