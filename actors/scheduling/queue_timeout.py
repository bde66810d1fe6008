"""The time-out of the queue: the end of jobs that no VM was free for in time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from actors.messages import QueueTimedOut

if TYPE_CHECKING:
    from actors.addresses import Address
    from actors.messages import RootMessage
    from actors.scheduling.pending_reason import Waiting
    from storage import Clock, Storage

_PAUSE_SECONDS = 0.5
_BATCH = 20


class QueueTimeout:
    """Times out jobs that wait for a VM too long. Downtime is excluded. For the pool's thread only."""

    def __init__(self, storage: Storage, clock: Clock, root: Address[RootMessage]) -> None:
        self._storage = storage
        self._clock = clock
        self._root = root
        self._began = clock.monotonic()

    def end_overdue(self, seconds: int, waiting: Waiting) -> float | None:
        """Time out the jobs that wait for longer, and say why; return in how many seconds to look again.

        ``seconds`` is 0 for no limit.
        """
        queue, timeline = self._storage.queue, self._storage.timeline
        since = queue.oldest() if seconds else None
        if since is None:
            return None
        waited = min(timeline.seconds_since(since), self._clock.monotonic() - self._began)
        if waited < seconds:
            return seconds - waited
        for job in queue.overdue(timeline.ago(timedelta(seconds=seconds)), _BATCH):
            why = f"no VM within {seconds} s: {waiting.reason(job.job_id, job.organization_id)}"
            self._root.post(QueueTimedOut(job.build_id, job.job_id, why))
        return _PAUSE_SECONDS
