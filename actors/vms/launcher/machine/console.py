"""The serial console of a machine: its beginning and its end are kept for diagnosis."""

from __future__ import annotations

import os

CHUNK_BYTES = 1 << 16
_KEPT_BYTES = 1 << 18
_LOOKED_AT_BYTES = 1 << 12


class Console:
    """A file with what the console had first, and a second one with what it had last."""

    def __init__(self, path: str) -> None:
        """Make the files, while this process may enter their folder."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._files = [os.open(name, flags, 0o600) for name in (path, f"{path}.later")]
        self._current, self._size = self._files[0], 0
        self._last = b""

    def keep(self, output: bytes) -> None:
        """Append to the first file until it is full, then to the second one, which starts anew when it is."""
        self._last = (self._last + output)[-_LOOKED_AT_BYTES:]
        if self._size + len(output) > _KEPT_BYTES:
            self._current = self._files[1]
            os.ftruncate(self._current, 0)
            self._size = 0
        os.write(self._current, output)
        self._size += len(output)

    def has(self, mark: bytes) -> bool:
        """Tell if a whole line with this mark was printed lately."""
        return any(line.startswith(mark) for line in self._last.replace(b"\r", b"").split(b"\n")[:-1])

    @property
    def last_line(self) -> bytes:
        """The last line that is not empty."""
        lines = [line for line in self._last.replace(b"\r", b"").split(b"\n") if line.strip()]
        return lines[-1].strip() if lines else b"its console is empty"
