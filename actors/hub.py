"""The log hub: wakes the readers that wait for a job's log to grow."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Self

from actors.messages import Stirred, Subscribe, Unsubscribe
from actors.runtime import Crew, post
from actors.supervision import Supervised

if TYPE_CHECKING:
    from actors.timer import Timer

__all__ = ["LogHub", "Watch"]


class LogHub(Supervised):
    """Keeps the current readers of each job's log, and wakes them when the log changes. Logs are files."""

    def __init__(self, timer: Timer, crew: Crew) -> None:
        super().__init__(timer, crew.root)
        self._readers: defaultdict[str, set[threading.Event]] = defaultdict(set)

    def handle(self, message: object) -> None:
        """Add a reader, remove one, or wake those of a job."""
        match message:
            case Stirred(job_uuid):
                for changed in self._readers.get(job_uuid, ()):
                    changed.set()
            case Subscribe(job_uuid, changed):
                self._readers[job_uuid].add(changed)
            case Unsubscribe(job_uuid, changed):
                self._readers[job_uuid].discard(changed)
                if not self._readers[job_uuid]:
                    del self._readers[job_uuid]


class Watch:
    """A reader's subscription at the hub; a context manager.

    Enter first, then read the log, then wait: a change after the read ends the wait, because the hub handles messages
    in order. If the hub is restarted meanwhile, the wait times out and the next read finds the change.
    """

    def __init__(self, crew: Crew, job_uuid: str) -> None:
        self._crew = crew
        self._job_uuid = job_uuid
        self._changed = threading.Event()

    def __enter__(self) -> Self:
        post(self._crew.hub, Subscribe(self._job_uuid, self._changed))
        return self

    def __exit__(self, *_: object) -> None:
        post(self._crew.hub, Unsubscribe(self._job_uuid, self._changed))

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a change since the last wait. Blocks the calling thread.

        A change that comes just as the time runs out is left for the next wait.
        """
        changed = self._changed.wait(timeout)
        if changed:
            self._changed.clear()
        return changed
