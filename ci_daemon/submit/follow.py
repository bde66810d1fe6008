"""Follow a build: growing logs and changing states as one stream of events."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ci_daemon.remote.errors import retry
from ci_daemon.submit.events import BuildUpdated, FollowStarted, JobUpdated, LogLine
from ci_daemon.submit.log_reader import read_log
from storage import JobState, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from api.operations import BuildRecord, JobRecord
    from ci_daemon.submit.build_reader import BuildReader
    from ci_daemon.submit.events import Event

_WITHOUT_LOG = {JobState.SKIPPED, JobState.CANCELED}


@immutable
class _Log:
    """The log of a job, or of its ``service``."""

    job: JobRecord
    service: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The job's id and the service, the same whatever state the job is in."""
        return self.job.uuid, self.service


@immutable
class _LogEnded:
    """A log was read to its end, or cannot be read because of ``error``."""

    log: _Log
    error: Exception | None = None


class Follower:
    """Reads the logs of started jobs in a few threads, and the states in the caller's.

    Args:
        reader: the build.
        poll_seconds: the seconds between two looks at the states.
        readers: the number of logs that are read at once. Other logs are read later, in full.
    """

    def __init__(self, reader: BuildReader, poll_seconds: float = 0.3, readers: int = 8) -> None:
        self._reader = reader
        self._poll_seconds = poll_seconds
        self._readers = readers
        self._received: queue.Queue[LogLine | _LogEnded] = queue.Queue(maxsize=1000)
        self._to_read: queue.Queue[_Log | None] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._followed: dict[str, set[tuple[str, str | None]]] = {}
        """The logs of each job that are followed, and not read to their ends."""

        self._shown: dict[str, JobRecord] = {}

    def events(self) -> Iterator[Event]:
        """Yield events until the build is over; its final state is the last event.

        A job's final state comes after the last line of its log.

        Raises:
            RequestFailed: the service refuses to show the build or a log.
            ServiceUnreachable: the service was away for too long.
        """
        shown: BuildRecord | None = None
        while True:
            started = time.monotonic()
            build = retry(self._reader.build)
            jobs = retry(self._reader.jobs)
            # A build whose records take long to read is polled less often, which spares the service.
            pause = max(self._poll_seconds, 5 * (time.monotonic() - started))
            if shown is None:
                shown = replace(build, pending_reason=None)
                yield FollowStarted(build, tuple(jobs))
            for job in jobs:
                if _has_log(job) and job.uuid not in self._followed:
                    self._follow(job)
            yield from self._updates(jobs)
            if build.state.terminal and all(job.state.terminal and self._log_was_read(job) for job in jobs):
                for _ in self._threads:
                    self._to_read.put(None)
                yield BuildUpdated(build)
                return
            if not build.state.terminal:
                if build.state != shown.state or build.pending_reason not in (None, shown.pending_reason):
                    yield BuildUpdated(build)
                shown = build
            yield from self._receive_until(time.monotonic() + pause)

    def _updates(self, jobs: Iterable[JobRecord]) -> Iterator[Event]:
        """Yield the jobs whose state has changed. A job counts as running until its log is read."""
        for job in jobs:
            if job.state.terminal and job.started_at is not None and not self._shown_as_started(job):
                yield from self._update(_as_started(job))
            if not job.state.terminal or self._log_was_read(job):
                yield from self._update(job)

    def _update(self, job: JobRecord) -> Iterator[Event]:
        before = self._shown.get(job.uuid)
        if before is None or (before.state, before.pending_reason) != (job.state, job.pending_reason):
            self._shown[job.uuid] = job
            yield JobUpdated(job)

    def _shown_as_started(self, job: JobRecord) -> bool:
        shown = self._shown.get(job.uuid)
        return shown is not None and (shown.state.terminal or shown.state is JobState.RUNNING or shown.state.ending)

    def _log_was_read(self, job: JobRecord) -> bool:
        return not self._followed.get(job.uuid)

    def _receive_until(self, deadline: float) -> Iterator[Event]:
        """Yield lines until the deadline, or until a log ends: then states have probably changed.

        If a line comes before its job was seen to run, the job's state is read first.
        """
        while (left := deadline - time.monotonic()) > 0:
            try:
                found = self._received.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(found, LogLine):
                if not self._shown_as_started(found.job):
                    yield from self._updates([self._get_job(found.job)])
                yield found
                continue
            if found.error is not None:
                raise found.error
            self._followed[found.log.job.uuid].discard(found.log.key)
            return

    def _get_job(self, job: JobRecord) -> JobRecord:
        return retry(lambda: self._reader.job(job.uuid))

    def _follow(self, job: JobRecord) -> None:
        logs = [_Log(job), *(_Log(job, service) for service in job.services)]
        self._followed[job.uuid] = {log.key for log in logs}
        for log in logs:
            self._read_later(log)

    def _read_later(self, log: _Log) -> None:
        self._to_read.put(log)
        if len(self._threads) < self._readers:
            # A daemon thread does not delay the process's exit, even while a read waits for bytes.
            thread = threading.Thread(target=self._read_logs, name=f"log-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read_logs(self) -> None:
        """Read one log after the other until no more come. Runs in a thread of its own."""
        while (log := self._to_read.get()) is not None:
            try:
                for text in read_log(partial(self._reader.log, log.job.uuid, service=log.service)):
                    self._received.put(LogLine(log.job, text, log.service))
            except Exception as error:  # noqa: BLE001 - re-raised in the thread that follows the build
                self._received.put(_LogEnded(log, error))
            else:
                self._received.put(_LogEnded(log))


def _as_started(job: JobRecord) -> JobRecord:
    """Return a job as it was when its command started."""
    return replace(
        job,
        state=JobState.RUNNING,
        exit_code=None,
        error_code=None,
        error_message=None,
        soft_failed=False,
        pending_reason=None,
        finished_at=None,
    )


def _has_log(job: JobRecord) -> bool:
    """Tell whether a job may have a log, also if it failed before its command started."""
    return job.started_at is not None or not (job.state.waiting or job.state in _WITHOUT_LOG)
