"""Send the traces of builds that have ended; the storage is the queue."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from ci_daemon.tracing.spans import BuildRecord, spans_of
from storage import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ci_daemon.tracing.settings import TracingSettings
    from ci_daemon.tracing.spans import Span
    from storage import Build, Clock, Storage

__all__ = ["Collector", "Tracer", "TracingUnavailable", "open_collector"]

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 15.0
_AT_ONCE = 50
_KEPT = timedelta(hours=1)
_LAST_WORDS = 2.0


class TracingUnavailable(Exception):
    """Tracing is configured, but its packages are not installed."""


class Collector(Protocol):
    """A receiver of traces."""

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans; return False if they were not taken. Blocks."""
        ...

    def close(self) -> None:
        """Make a `send` that runs in another thread end soon."""
        ...


def open_collector(settings: TracingSettings) -> Collector:
    """Return the configured collector. Raises TracingUnavailable if its packages are missing."""
    try:
        from ci_daemon.tracing.otlp import OtlpCollector  # noqa: PLC0415 - an extra that few install
    except ImportError as error:
        raise TracingUnavailable(
            f"[tracing] names an endpoint, and the packages that send traces are missing ({error}). Either run"
            f' {sys.executable} -m pip install "opentelemetry-exporter-otlp-proto-http>=1.27", which is what'
            " ci-daemon[otlp] adds, or take the endpoint out of the configuration"
        ) from error
    return OtlpCollector(settings.endpoint)


class Tracer:
    """Polls every second for builds that have ended and sends their traces, in a thread of its own.

    Its position is kept in the storage, so that a restart skips no build. If the collector takes nothing, it retries,
    with one warning, and drops builds that ended more than an hour ago.
    """

    def __init__(self, storage: Storage, collector: Collector, clock: Clock) -> None:
        """Start the thread. On the very first start, builds that have already ended are skipped."""
        self._storage = storage
        self._collector = collector
        self._clock = clock
        self._stop = threading.Event()
        self._failing = False
        if storage.traces_sent.until() is None:
            storage.traces_sent.note(clock.now())
        self._thread = threading.Thread(target=self._run, name="tracer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the builds that have ended by now, within seconds, and end the thread."""
        self._stop.set()
        self._thread.join(_LAST_WORDS)
        self._collector.close()
        self._thread.join(_LAST_WORDS)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._stop.wait(_AGAIN_SECONDS if self._failing else _LOOK_SECONDS)
            try:
                self._note(taken=self._send_ended())
            except StorageError as error:
                _log.error("traces wait for the storage: %s", error)

    def _send_ended(self) -> bool:
        """Send all builds that have ended since the last one sent; return False if the collector refuses one."""
        oldest = self._clock.now() - _KEPT
        after = max(self._storage.traces_sent.until() or oldest, oldest)
        while builds := self._storage.builds.ended(after, _AT_ONCE):
            for build in builds:
                if not self._collector.send(list(spans_of(self._record(build)))):
                    return False
                after = self._ended(build)
                self._storage.traces_sent.note(after)
        return True

    def _record(self, build: Build) -> BuildRecord:
        storage = self._storage
        jobs = storage.jobs.of_build(build.id)
        attempts = {job.id: storage.attempts.of_job(job.id) for job in jobs}
        render = storage.renders.get(build.id)
        rendered_at = None if render is None else render.finished_at
        return BuildRecord(build, jobs, storage.jobs.edges(build.id), attempts, rendered_at)

    def _ended(self, build: Build) -> datetime:
        return build.finished_at or self._clock.now()

    def _note(self, *, taken: bool) -> None:
        if taken and self._failing:
            _log.info("traces are taken again")
        elif not taken and not self._failing:
            _log.warning("the collector of [tracing] takes no traces: builds that end are kept for it for an hour")
        self._failing = not taken
