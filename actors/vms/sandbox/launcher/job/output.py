"""The combined output of a command, kept in a file up to a limit."""

from __future__ import annotations

import os

_CHUNK = 1 << 20


class Output:
    """A file to which output is moved from a pipe; bytes beyond the limit are counted and dropped."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.size = self.dropped = 0

    def move(self, pipe: int, limit: int) -> int:
        """Move what is in a pipe; return the number of bytes, 0 at its end. Raises BlockingIOError.

        If the file cannot take them, they are dropped.
        """
        if self.size < limit and not self.dropped:
            try:
                count = os.splice(pipe, self.file, min(limit - self.size, _CHUNK), offset_dst=self.size)
            except BlockingIOError:
                raise
            except OSError:  # the host's disk is full
                return self._drop(pipe)
            self.size += count
            return count
        return self._drop(pipe)

    def _drop(self, pipe: int) -> int:
        count = len(os.read(pipe, _CHUNK))
        self.dropped += count
        return count
