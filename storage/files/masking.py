"""Masking: secrets are replaced before output is stored (engine.md, "Logs"). Pure."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from storage.files.secret_encodings import secret_encodings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Masker"]

_MASK = b"***"
_HEAD = 8
_CORE = 32
_WORD = re.compile(rb"[A-Za-z0-9._~-]{8,}")


class Masker:
    """Replaces its patterns by ``***``: the leftmost match first, and the longest of those at one byte.

    It keeps no state, so that the result is the same however the output is split, and after a crash too: undecided
    bytes are left to the caller, who passes them again with what follows. Its time grows with the length of the output
    and the number of patterns, whatever the patterns are. Safe in any thread.
    """

    def __init__(self, patterns: Iterable[bytes] = ()) -> None:
        """Prepare the patterns, none of which may be empty."""
        self._patterns = tuple(set(patterns))
        self._beginnings = {pattern[:size] for pattern in self._patterns for size in range(1, min(_HEAD, len(pattern)))}
        self.longest = max(map(len, self._patterns), default=0)
        self._cores = BytesAhoCorasick(_cores(self._patterns), MatchKind.LeftmostLongest)  # the kind that uses SIMD

    @classmethod
    def hiding(cls, values: Iterable[str]) -> Masker:
        """Return a masker of values and their usual encodings."""
        return cls(form for value in values for form in secret_encodings(value))

    def mask(self, data: bytes | memoryview, *, more: bool) -> tuple[bytes | memoryview, int]:
        """Return masked output and how many bytes of ``data`` it consumed; the caller passes the rest again.

        If ``more`` may follow, the rest is the longest suffix outside of matches that may start a pattern. It is
        shorter than ``longest``. Otherwise there is no rest.
        """
        if not self._patterns:
            return data, len(data)
        undecided = self._undecided(data, 0) if more else len(data)
        kept: list[bytes | memoryview] = []
        done = 0
        for start, end in self._matches(data):
            if start >= undecided:
                break
            kept += (data[done:start], _MASK)
            done = end
            if end > undecided:
                undecided = self._undecided(data, end)
        rest = data[done:undecided]
        return b"".join((*kept, rest)) if kept else rest, undecided

    def masked(self, text: str) -> str:
        """Return a complete text, masked."""
        return bytes(self.mask(text.encode("utf-8", "replace"), more=False)[0]).decode(errors="replace")

    def _matches(self, output: bytes | memoryview) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match; matches do not overlap."""
        if not self._cores.find_matches_as_indexes(output):
            return
        data = bytes(output)
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

    def _undecided(self, data: bytes | memoryview, start: int) -> int:
        """Return the first offset from ``start`` whose suffix may start a pattern, else the end of ``data``."""
        start = max(start, len(data) - self.longest + 1)
        tail = bytes(data[start:])
        last = range(max(0, len(tail) - _HEAD + 1), len(tail))
        place = next((place for place in last if tail[place:] in self._beginnings), len(tail))
        for pattern in self._patterns:
            place = _begun(pattern, tail, place)
        return start + place


def _cores(patterns: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return few short byte strings of which each pattern contains one: output without them has no match.

    The encodings of a secret differ in punctuation, so most of them share their longest word.
    """
    words = {max(_WORD.findall(pattern), key=len, default=pattern)[:_CORE] for pattern in patterns}
    cores: list[bytes] = []
    for core in sorted(words, key=len):
        if not any(shorter in core for shorter in cores):
            cores.append(core)
    return tuple(cores)


def _begun(pattern: bytes, data: bytes, end: int) -> int:
    """Return the first offset before ``end`` whose suffix may start the pattern, else ``end``.

    Only suffixes of ``data`` with 8 bytes or more are considered.
    """
    start = max(0, len(data) - len(pattern) + 1)
    head = pattern[:_HEAD]
    while (place := data.find(head, start, end + _HEAD - 1)) >= 0:
        if pattern.startswith(data[place:]):
            return place
        start = place + 1
    return end
