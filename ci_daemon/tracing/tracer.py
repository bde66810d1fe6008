"""Send the traces of builds that have ended; the storage is the queue."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

from ci_daemon.tracing.spans import FinishedBuild, build_spans
from storage import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.settings import TracingSettings
    from ci_daemon.tracing.spans import Span
    from storage import Build, Clock, Storage

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_RETRY_SECONDS = 15.0
_BATCH = 50
_MAX_AGE = timedelta(hours=1)
_DRAIN_TIMEOUT = 2.0


class TracingUnavailable(Exception):
    """Tracing is configured, but its packages are not installed."""


class Exporter(Protocol):
    """Sends spans to a collector."""

    def export(self, spans: Sequence[Span]) -> bool:
        """Send spans; return False if the collector does not accept them. Blocks."""
        ...

    def close(self) -> None:
        """Make an `export` in another thread end soon."""
        ...


def open_exporter(settings: TracingSettings) -> Exporter:
    """Return an exporter to the configured collector. Raises TracingUnavailable."""
    try:
        from ci_daemon.tracing.otlp import OtlpExporter  # noqa: PLC0415 - an extra that few install
    except ImportError as error:
        raise TracingUnavailable(
            f"[tracing] has an endpoint, but the packages that send traces are missing ({error}). Install them with"
            f' {_pip_install()} "opentelemetry-exporter-otlp-proto-http>=1.27", as ci-daemon[otlp] does,'
            " or remove the endpoint from the configuration"
        ) from error
    return OtlpExporter(settings.endpoint)


def _pip_install() -> str:
    """Return the command that installs packages where this program finds them.

    The Debian package and the environments of uv have no pip. The portable archive is no environment: the Python is
    the system's, and the packages are in a folder of the archive.
    """
    python = quote(sys.executable)
    command = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    if sys.prefix == sys.base_prefix:
        command += f" --target {quote(str(Path(__file__).parents[2]))}"
    return command


class Tracer:
    """Polls every second for builds that have ended and sends their traces, in a thread of its own.

    Its position is kept in the storage, so that a restart skips no build. If the collector accepts nothing, it retries,
    with one warning, and drops builds whose end was recorded more than an hour ago.
    """

    def __init__(self, storage: Storage, exporter: Exporter, clock: Clock) -> None:
        """Start the thread. On the very first start, builds that have already ended are skipped."""
        self._storage = storage
        self._exporter = exporter
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
        self._thread.join(_DRAIN_TIMEOUT)
        self._exporter.close()
        self._thread.join(_DRAIN_TIMEOUT)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._stop.wait(_RETRY_SECONDS if self._failing else _POLL_SECONDS)
            try:
                self._report(accepted=self._send_ended())
            except StorageError as error:
                _log.error("traces are not sent, because of an error of the storage: %s", error)

    def _send_ended(self) -> bool:
        """Send all builds that have ended since the last one sent; return False if the collector refuses one."""
        oldest = self._clock.now() - _MAX_AGE
        after = max(self._storage.traces_sent.until() or oldest, oldest)
        while builds := self._storage.builds.ended(after, _BATCH):
            for build in builds:
                if not self._exporter.export(list(build_spans(self._finished(build)))):
                    return False
                after = build.recorded_at or self._clock.now()
                self._storage.traces_sent.note(after)
        return True

    def _finished(self, build: Build) -> FinishedBuild:
        storage = self._storage
        jobs = storage.jobs.of_build(build.id)
        attempts = {job.id: storage.attempts.of_job(job.id) for job in jobs}
        render = storage.renders.get(build.id)
        rendered_at = None if render is None else render.finished_at
        return FinishedBuild(build, jobs, storage.jobs.edges(build.id), attempts, rendered_at)

    def _report(self, *, accepted: bool) -> None:
        if accepted and self._failing:
            _log.info("the collector accepts traces again")
        elif not accepted and not self._failing:
            _log.warning("the collector of [tracing] accepts no traces: those of the last hour are sent again later")
        self._failing = not accepted
