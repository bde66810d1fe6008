"""Which files of a workspace a job's globs match. Pure (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Globs"]

_ANYWHERE = "**"


class Globs:
    """Patterns over paths that are relative to the workspace: ``*``, ``?``, ``[…]`` in a segment, ``**`` across some.

    A pattern that matches a folder matches all that is below it. Names that begin with a dot are names like others.
    However patterns and paths are made, the time of a match grows with the product of their lengths at most.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [_Pattern(pattern) for pattern in patterns]

    def match(self, path: str) -> bool:
        """Tell whether any of the patterns matches a path."""
        segments = path.split("/")
        return any(pattern.match(segments) for pattern in self._patterns)


class _Pattern:
    """One pattern as an automaton, at several of its segments at once, for ``**`` stands for many or none."""

    def __init__(self, pattern: str) -> None:
        segments = [segment for segment in pattern.split("/") if segment not in {"", "."}] or ["*"]
        if segments[-1] == _ANYWHERE:  # what is below a match is matched anyhow, and the folder itself is no file
            segments[-1] = "*"
        self._segments = [None if segment == _ANYWHERE else _segment(segment) for segment in segments]

    def match(self, path: Sequence[str]) -> bool:
        """Tell whether it matches a path, or a folder that the path is below."""
        places = self._from({0})
        for segment in path:
            places = self._from({place for at in places for place in self._past(at, segment)})
            if len(self._segments) in places:
                return True
        return False

    def _past(self, place: int, segment: str) -> tuple[int, ...]:
        """Return where it may be when a segment of the path has been read at a place."""
        matches = self._segments[place]
        if matches is None:
            return (place,)
        return (place + 1,) if matches(segment) else ()

    def _from(self, places: set[int]) -> set[int]:
        """Add the places that come after a ``**``, which may stand for nothing."""
        for place in sorted(places):
            after = place
            while after < len(self._segments) and self._segments[after] is None:
                after += 1
                places.add(after)
        return places


def _segment(pattern: str) -> Callable[[str], object]:
    """Return what matches a name; `translate` makes expressions that never go back past a ``*``."""
    return re.compile(translate(pattern)).match
