"""Follow a build: growing logs and changing states as one stream of events."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_daemon.submit.events import Begun, BuildChanged, JobChanged, Line
from ci_daemon.submit.log_reader import read_log
from ci_daemon.submit.patience import persist

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_daemon.submit.client import Client
    from ci_daemon.submit.events import Event
    from ci_daemon.submit.records import JobRecord

__all__ = ["Follower"]

_POLL_SECONDS = 0.3
_BEGUN = {"running", "canceling", "timing_out"}


@dataclass(frozen=True, slots=True)
class _LogEnded:
    """A job's log was read to its end, or cannot be read because of ``fault``."""

    job: JobRecord
    fault: Exception | None = None


class Follower:
    """Reads the logs of started jobs in a few threads, and the states in the caller's.

    Args:
        client: the service.
        path: the path of the build's record.
        readers: the number of logs that are read at once. Other logs are read later, in full.
    """

    def __init__(self, client: Client, path: str, readers: int = 8) -> None:
        self._client = client
        self._path = path
        self._readers = readers
        self._found: queue.Queue[Line | _LogEnded] = queue.Queue(maxsize=1000)
        self._to_read: queue.Queue[JobRecord | None] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._followed: set[str] = set()
        self._read: set[str] = set()
        self._shown: dict[str, JobRecord] = {}

    def events(self) -> Iterator[Event]:
        """Yield events until the build is over; its final state is the last event.

        A job's final state comes after the last line of its log.

        Raises:
            ApiError: the service refuses to show the build or a log.
            ServiceUnreachable: the service was away for too long.
        """
        state: str | None = None
        while True:
            asked = time.monotonic()
            build = persist(lambda: self._client.build(self._path))
            jobs = persist(lambda: self._client.jobs(self._path))
            # A build whose records take long to read is polled less often, which spares the service.
            pause = max(_POLL_SECONDS, 5 * (time.monotonic() - asked))
            if state is None:
                state = build.state
                yield Begun(build, tuple(jobs))
            for job in jobs:
                if _has_log(job) and job.id not in self._followed:
                    self._follow(job)
            yield from self._changed(jobs)
            if build.over and all(job.over and self._all_read(job) for job in jobs):
                for _ in self._threads:
                    self._to_read.put(None)
                yield BuildChanged(build)
                return
            if build.state != state and not build.over:
                yield BuildChanged(build)
                state = build.state
            yield from self._arriving(time.monotonic() + pause)

    def _changed(self, jobs: Iterable[JobRecord]) -> Iterator[Event]:
        """Yield the jobs whose state has changed. A job counts as running until its log is read."""
        for job in jobs:
            now = job
            if job.over and not self._all_read(job):
                if job.started_at is None or self._has_begun(job):
                    continue
                now = job.at_its_start
            before = self._shown.get(job.id)
            if before is None or (before.state, before.pending_reason) != (now.state, now.pending_reason):
                self._shown[job.id] = now
                yield JobChanged(now)

    def _has_begun(self, job: JobRecord) -> bool:
        shown = self._shown.get(job.id)
        return shown is not None and shown.state in _BEGUN

    def _all_read(self, job: JobRecord) -> bool:
        return job.id not in self._followed or job.id in self._read

    def _arriving(self, until: float) -> Iterator[Event]:
        """Yield lines until the deadline, or until a log ends: then states have probably changed.

        If a line comes before its job was seen to run, the job's state is read first.
        """
        while (left := until - time.monotonic()) > 0:
            try:
                found = self._found.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(found, Line):
                if not self._has_begun(found.job):
                    yield from self._changed([self._look(found.job)])
                yield found
                continue
            if found.fault is not None:
                raise found.fault
            self._read.add(found.job.id)
            return

    def _look(self, job: JobRecord) -> JobRecord:
        return persist(lambda: self._client.job(self._path, job.id))

    def _follow(self, job: JobRecord) -> None:
        self._followed.add(job.id)
        self._to_read.put(job)
        if len(self._threads) < self._readers:
            # A daemon thread does not delay the process's exit, even while a read waits for bytes.
            thread = threading.Thread(target=self._read_logs, name=f"log-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read_logs(self) -> None:
        """Read one log after the other until no more come. Runs in a thread of its own."""
        while (job := self._to_read.get()) is not None:
            try:
                for text in read_log(self._client, f"{self._path}/jobs/{job.id}/log"):
                    self._found.put(Line(job, text))
            except Exception as fault:  # noqa: BLE001 - re-raised in the thread that follows the build
                self._found.put(_LogEnded(job, fault))
            else:
                self._found.put(_LogEnded(job))


def _has_log(job: JobRecord) -> bool:
    """Tell whether a job may have a log, also if it failed before its command started."""
    return job.started_at is not None or job.state not in {"pending", "scheduled", "skipped", "canceled"}
