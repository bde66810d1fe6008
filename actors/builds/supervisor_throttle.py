"""The supervisor throttle: builds that run nothing get their supervisors a few at a time.

So a cancel of a thousand waiting builds, or a start of the service with as many, takes no more threads and file handles
than that of a few (engine.md, "Actors").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.messages import ForBuild

_MAX_RUNNING = 16


class SupervisorThrottle:
    """At most 16 builds with a supervisor that only does housekeeping, and a queue of others.

    For root's thread only.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, list[ForBuild]] = {}
        self._started: set[int] = set()

    def __contains__(self, build_id: object) -> bool:
        """Tell whether a build waits for its supervisor."""
        return build_id in self._waiting

    def join(self, build_id: int, *messages: ForBuild) -> None:
        """Queue a build, with messages to its supervisor; duplicates are dropped."""
        queued = self._waiting.setdefault(build_id, [])
        queued += (message for message in messages if message not in queued)

    def next(self) -> int | None:
        """Return the build whose supervisor may start now; None if enough run, or none waits."""
        return next(iter(self._waiting), None) if len(self._started) < _MAX_RUNNING else None

    def start(self, build_id: int) -> list[ForBuild]:
        """Count a supervisor that starts, until `leave`; return the messages to it."""
        self._started.add(build_id)
        return self._waiting.pop(build_id)

    def leave(self, build_id: int) -> None:
        """Count a supervisor no longer, because it is done, or because a job of its build runs."""
        self._started.discard(build_id)
