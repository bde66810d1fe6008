"""The log hub: whoever waits for a job's log to grow is woken here."""

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
    """Knows who reads which job's log right now. Logs themselves are files; the hub only says that one changed."""

    def __init__(self, timer: Timer, crew: Crew) -> None:
        super().__init__(timer, crew.root)
        self._readers: defaultdict[str, set[threading.Event]] = defaultdict(set)

    def handle(self, message: object) -> None:
        """Take in a reader, let one go, or wake those of a job."""
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
    """A reader's place at the hub; a context manager.

    Enter first, then look at the log, then wait: what changes after the look wakes the wait, because the hub takes its
    messages in order. Should the hub be restarted meanwhile, a wait ends with its time-out and the next look finds out.
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

        A change that comes just as the time is over is left for the next wait.
        """
        changed = self._changed.wait(timeout)
        if changed:
            self._changed.clear()
        return changed
