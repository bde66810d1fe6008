"""A buffer for an archive that is made in memory."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class LimitedBuffer(io.BytesIO):
    """A buffer whose writes beyond a limit raise the given refusal."""

    def __init__(self, limit: int, refusal: Exception) -> None:
        super().__init__()
        self._limit = limit
        self._refusal = refusal

    def write(self, chunk: Buffer, /) -> int:
        """Write unless the limit is passed."""
        if self.tell() > self._limit:
            raise self._refusal
        return super().write(chunk)
