"""Counts of dropped events, which no longer apply to their job's state (engine.md, "States")."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.states import JobEvent
    from storage import JobState

__all__ = ["Drops"]

_log = logging.getLogger(__name__)


class Drops:
    """Counts dropped events by the job's state and the event. Safe in any thread."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[JobState, JobEvent]] = Counter()
        self._lock = threading.Lock()

    def counts(self) -> dict[tuple[JobState, JobEvent], int]:
        """Return the counts so far."""
        with self._lock:
            return dict(self._counts)

    def note(self, job_uuid: str, state: JobState, event: JobEvent) -> None:
        """Count one event, and log it at level debug."""
        with self._lock:
            self._counts[state, event] += 1
            count = self._counts[state, event]
        _log.debug("job %s is %s: %s is dropped, %d of that kind so far", job_uuid, state, event.name, count)
