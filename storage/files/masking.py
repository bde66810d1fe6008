"""Masking: secrets are replaced before output is stored (engine.md, "Logs"). Pure."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from storage.files.secret_encodings import can_be_masked, secret_encodings
from storage.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ahocorasick_rs import BytesAhoCorasick

_MASK = b"***"
_HEAD = 8
_CORE = 32
_FEW = 256
"""More words than this are not compared with each other."""
_WORD = pattern(rb"[A-Za-z0-9._~-]{8,}")


class Masker:
    """Replaces its patterns by ``***``: the leftmost match first, and the longest of those at one byte.

    It keeps no state, so that the result is the same however the output is split, and after a crash too: undecided
    bytes are left to the caller, who passes them again with what follows. Its time grows with the length of the output
    alone, whatever the patterns and their number are. Safe in any thread.
    """

    def __init__(self, patterns: Iterable[bytes] = ()) -> None:
        """Prepare the patterns, none of which may be empty."""
        self._patterns = sorted(set(patterns))
        self._beginnings = {pattern[:size] for pattern in self._patterns for size in range(1, min(_HEAD, len(pattern)))}
        self.longest = max(map(len, self._patterns), default=0)

    @classmethod
    def hiding(cls, values: Iterable[str]) -> Masker:
        """Return a masker of values and their usual encodings."""
        return cls(secret_encodings(*values))

    @staticmethod
    def can_hide(value: str) -> bool:
        """True if a secret is long enough to be masked."""
        return can_be_masked(value)

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

    @cached_property
    def _cores(self) -> BytesAhoCorasick:
        """A searcher for the cores, made once there is output to mask; of the kind that uses SIMD."""
        import ahocorasick_rs as rs  # noqa: PLC0415 - most processes have nothing to hide

        return rs.BytesAhoCorasick(_cores(self._patterns), rs.MatchKind.LeftmostLongest)

    @cached_property
    def _whole(self) -> BytesAhoCorasick:
        """A searcher for all patterns, made once output has a core; most output has none."""
        import ahocorasick_rs as rs  # noqa: PLC0415 - the same

        # Made in linear time; a DFA takes the square of a pattern's length.
        return rs.BytesAhoCorasick(
            self._patterns, rs.MatchKind.LeftmostLongest, implementation=rs.Implementation.ContiguousNFA
        )

    @cached_property
    def _heads(self) -> BytesAhoCorasick:
        """The beginnings of the patterns that may be cut off after it."""
        heads = {pattern[:_HEAD] for pattern in self._patterns if len(pattern) > _HEAD}
        import ahocorasick_rs as rs  # noqa: PLC0415 - the same

        return rs.BytesAhoCorasick(sorted(heads), rs.MatchKind.Standard, implementation=rs.Implementation.ContiguousNFA)

    def _matches(self, output: bytes | memoryview) -> list[tuple[int, int]]:
        """Return start and end of each match; matches do not overlap."""
        if not self._cores.find_matches_as_indexes(output):
            return []
        return [(start, end) for _, start, end in self._whole.find_matches_as_indexes(output)]

    def _undecided(self, data: bytes | memoryview, start: int) -> int:
        """Return the first offset from ``start`` whose suffix may start a pattern, else the end of ``data``."""
        start = max(start, len(data) - self.longest + 1)
        tail = bytes(data[start:])
        for _, place, _ in self._heads.find_matches_as_indexes(tail, overlapping=True):
            if self._begins_a_pattern(tail[place:]):
                return start + place
        last = range(max(0, len(tail) - _HEAD + 1), len(tail))
        return start + next((place for place in last if tail[place:] in self._beginnings), len(tail))

    def _begins_a_pattern(self, text: bytes) -> bool:
        """True if a text is the beginning of a longer pattern: such a pattern is next to it in their order."""
        at = bisect_left(self._patterns, text)
        after = self._patterns[at : at + 2]
        return any(len(pattern) > len(text) and pattern.startswith(text) for pattern in after)


def _cores(patterns: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return few short byte strings of which each pattern contains one: output without them has no match.

    The encodings of a secret differ in punctuation, so most of them share their longest word.
    """
    words = {max(_WORD.findall(pattern), key=len, default=pattern)[:_CORE] for pattern in patterns}
    if len(words) > _FEW:
        return tuple(words)
    cores: list[bytes] = []
    for core in sorted(words, key=len):
        if not any(shorter in core for shorter in cores):
            cores.append(core)
    return tuple(cores)
