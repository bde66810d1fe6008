"""Masking: what nobody may read is replaced before it is stored (engine.md, "Logs"). Pure."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from storage.disguises import disguises

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Masker"]

_MASK = b"***"
_HEAD = 8


class Masker:
    """Replaces each of its patterns by ``***``: the leftmost first, of those that begin at one byte the longest.

    It remembers nothing, so that output comes out the same however it is cut up, and whoever goes on with it: what is
    not decided yet is given back, to be given again with what follows. Its time grows with the output's length and the
    number of patterns, whatever they look like. Safe in any thread.
    """

    def __init__(self, patterns: Iterable[bytes] = ()) -> None:
        """Take the patterns, none of them empty."""
        self._patterns = tuple(set(patterns))
        self._beginnings = {pattern[:size] for pattern in self._patterns for size in range(1, min(_HEAD, len(pattern)))}
        self.longest = max(map(len, self._patterns), default=0)

    @classmethod
    def hiding(cls, values: Iterable[str]) -> Masker:
        """Return one that hides these values, and what encoders make of them."""
        return cls(form for value in values for form in disguises(value))

    def mask(self, data: bytes, *, more: bool) -> tuple[bytes, int]:
        """Return masked output, and how many bytes of ``data`` it stands for; the rest of them is to come again.

        Where ``more`` may follow that rest is the shortest one that has to wait: it begins a pattern, and is not all of
        it. It is shorter than ``longest``.
        """
        if not self._patterns:
            return data, len(data)
        undecided = self._undecided(data, 0) if more else len(data)
        kept: list[bytes] = []
        done = 0
        for start, end in self._matches(data):
            if start >= undecided:
                break
            kept += (data[done:start], _MASK)
            done = end
            if end > undecided:
                undecided = self._undecided(data, end)
        kept.append(data[done:undecided])
        return b"".join(kept), undecided

    def masked(self, text: str) -> str:
        """Return a text that nothing follows with what it hides replaced."""
        return self.mask(text.encode("utf-8", "replace"), more=False)[0].decode(errors="replace")

    def _matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where matches begin and end, none inside another one."""
        found = ((data.find(pattern), -len(pattern), pattern) for pattern in self._patterns)
        upcoming = [each for each in found if each[0] >= 0]
        heapq.heapify(upcoming)
        end = 0
        while upcoming:
            start, order, pattern = upcoming[0]
            if start >= end:
                end = start + len(pattern)
                yield start, end
            elif (start := data.find(pattern, end)) >= 0:
                heapq.heapreplace(upcoming, (start, order, pattern))
            else:
                heapq.heappop(upcoming)

    def _undecided(self, data: bytes, start: int) -> int:
        """Return the first place from ``start`` on whence all that is left begins a pattern, else the end."""
        last = range(max(start, len(data) - _HEAD + 1), len(data))
        place = next((place for place in last if data[place:] in self._beginnings), len(data))
        for pattern in self._patterns:
            place = _begun(pattern, data, start, place)
        return place


def _begun(pattern: bytes, data: bytes, start: int, end: int) -> int:
    """Return the first place from ``start`` up to ``end`` whence ``data``, 8 bytes of it or more, begins the pattern.

    ``end`` where there is none.
    """
    start = max(start, len(data) - len(pattern) + 1)
    head = pattern[:_HEAD]
    while (place := data.find(head, start, end + _HEAD - 1)) >= 0:
        if pattern.startswith(data[place:]):
            return place
        start = place + 1
    return end
