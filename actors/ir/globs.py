"""Matching of globs against paths in the workspace. Pure (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Places = frozenset[tuple[int, int]]
"""Progress after a part of a path: numbers of patterns, and of the segments read of them."""

_ANYWHERE = "**"


class Globs:
    """Globs over paths relative to the workspace: ``*``, ``?`` and ``[…]`` in a segment, ``**`` across.

    A pattern that matches a folder matches everything below it. A leading dot in a name is not special. The time of a
    match grows at most with the product of the lengths of patterns and path.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [_Pattern(pattern) for pattern in patterns]

    def match(self, path: str) -> bool:
        """Tell whether any of the patterns matches a path."""
        segments = path.split("/")
        return any(pattern.match(segments) for pattern in self._patterns)

    def start(self) -> Places:
        """Return what is left before a path is read."""
        return frozenset((number, place) for number, each in enumerate(self._patterns) for place in each.start())

    def after(self, places: Places, path: str) -> Places:
        """Return what is left after a path relative to that of ``places``; nothing if none can match."""
        for segment in path.split("/"):
            places = frozenset(
                (number, after) for number, place in places for after in self._patterns[number].after(place, segment)
            )
        return places

    def matched(self, places: Places) -> set[int]:
        """Return the numbers of the patterns that have matched, or match a folder above."""
        return {number for number, place in places if self._patterns[number].ends_at(place)}

    def names(self, path: str) -> bool:
        """Tell whether a pattern names a path's last part itself, and not only by ``**`` or a folder above."""
        folder, _, name = path.rpartition("/")
        places = self.after(self.start(), folder) if folder else self.start()
        return any(self._patterns[number].reads(place, name) for number, place in places)


class _Pattern:
    """One pattern as an automaton with a set of states, because ``**`` matches any number of segments."""

    def __init__(self, pattern: str) -> None:
        segments = [segment for segment in pattern.split("/") if segment not in {"", "."}] or ["*"]
        segments = [
            each for each, before in zip(segments, ["", *segments], strict=False) if {each, before} != {_ANYWHERE}
        ]
        if segments[-1] == _ANYWHERE:  # everything below a match matches anyway, and the folder itself is no file
            segments[-1] = "*"
        self._segments = [None if segment == _ANYWHERE else _segment(segment) for segment in segments]

    def match(self, path: Sequence[str]) -> bool:
        """Tell whether the pattern matches a path, or a folder above it."""
        places = self._from({0})
        for segment in path:
            places = self._from({place for at in places for place in self._past(at, segment)})
            if len(self._segments) in places:
                return True
        return False

    def start(self) -> set[int]:
        """Return the places before the first segment."""
        return self._from({0})

    def after(self, place: int, segment: str) -> set[int]:
        """Return the places after a segment; a match stays one."""
        return {place} if self.ends_at(place) else self._from(set(self._past(place, segment)))

    def ends_at(self, place: int) -> bool:
        """Tell whether a place is behind all segments."""
        return place == len(self._segments)

    def reads(self, place: int, segment: str) -> bool:
        """Tell whether a segment is matched at a place, and not passed over by ``**``."""
        return self.ends_at(place) or (place + 1 in self._past(place, segment))

    def _past(self, place: int, segment: str) -> tuple[int, ...]:
        """Return the places that follow ``place`` when it reads a segment of the path."""
        matches = self._segments[place]
        if matches is None:
            return (place,)
        return (place + 1,) if matches(segment) else ()

    def _from(self, places: set[int]) -> set[int]:
        """Add the places that come after a ``**``, which may match nothing; no two of them follow each other."""
        return places | {each + 1 for each in places if each < len(self._segments) and self._segments[each] is None}


def _segment(pattern: str) -> Callable[[str], object]:
    """Return a matcher of one name; the expressions of `translate` never backtrack past a ``*``."""
    return re.compile(translate(pattern)).match
