"""The supervisor throttle: builds that run nothing get their supervisors a few at a time.

So a cancel of a thousand waiting builds, or a start of the service with as many, takes no more threads and file handles
than that of a few (engine.md, "Actors": threads and file handles grow with running jobs, never with queued ones).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.messages import ForBuild

__all__ = ["Rounds"]

_AT_ONCE = 16


class Rounds:
    """The builds whose turn it is, and those that wait for it, first come first served. For root's thread."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[ForBuild]] = {}
        self._begun: set[int] = set()

    def __contains__(self, build_id: object) -> bool:
        """Tell whether a build waits for its turn."""
        return build_id in self._waiting

    def join(self, build_id: int, *messages: ForBuild) -> None:
        """Queue a build for its turn, with messages to its supervisor; duplicates are dropped."""
        told = self._waiting.setdefault(build_id, [])
        told += (message for message in messages if message not in told)

    def next(self) -> int | None:
        """Return the build whose turn is next; None if enough have theirs, or none waits."""
        return next(iter(self._waiting), None) if len(self._begun) < _AT_ONCE else None

    def begin(self, build_id: int) -> list[ForBuild]:
        """Begin a build's turn, which `leave` ends; return the messages to its supervisor."""
        self._begun.add(build_id)
        return self._waiting.pop(build_id)

    def leave(self, build_id: int) -> None:
        """End a build's turn, because it is done, or because it runs something and is not throttled."""
        self._begun.discard(build_id)
