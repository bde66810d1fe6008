"""Builds that want their supervisor for a moment and run nothing: looked after a few at a time, however many there are.

A cancel of a thousand waiting builds, or the start of a service over as many, so takes no more threads and file handles
than that of a few (engine.md, "Actors": threads and file handles grow with running jobs, never with queued ones).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.messages import ForBuild

__all__ = ["Rounds"]

_AT_ONCE = 16


class Rounds:
    """Who is looked after and who waits for that, in the order in which they came. Of the root's thread alone."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[ForBuild]] = {}
        self._begun: set[int] = set()

    def __contains__(self, build_id: object) -> bool:
        """Tell whether a build waits for its turn."""
        return build_id in self._waiting

    def join(self, build_id: int, *messages: ForBuild) -> None:
        """Have a build wait for its turn, with what its supervisor is to be told, each of it once."""
        told = self._waiting.setdefault(build_id, [])
        told += (message for message in messages if message not in told)

    def next(self) -> int | None:
        """Return the build whose turn it is, None where enough have theirs, or none waits."""
        return next(iter(self._waiting), None) if len(self._begun) < _AT_ONCE else None

    def begin(self, build_id: int) -> list[ForBuild]:
        """Begin a build's turn, which `leave` ends; return what its supervisor is to be told."""
        self._begun.add(build_id)
        return self._waiting.pop(build_id)

    def leave(self, build_id: int) -> None:
        """End the turn of a build that is looked after, or runs something and so counts no more among these."""
        self._begun.discard(build_id)
