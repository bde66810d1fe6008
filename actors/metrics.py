"""Metrics of the engine's events, and the class for an engine whose metrics nobody reads."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from actors.vms import ImageNotFound, SnapshotNotFound, VmError
from storage import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.registry import Collector

    from actors.builds.outcome import AttemptResult
    from actors.builds.states import JobEvent
    from actors.settings import PoolSettings
    from actors.supervision import Supervised
    from actors.vms import Providers
    from storage import Build, Lease

NO_ERROR = "-"

_log = logging.getLogger(__name__)


class Metric(StrEnum):
    """The metrics of events, by their names for Prometheus."""

    BUILDS = "ci_daemon_build_seconds"
    WAITS = "ci_daemon_job_queue_wait_seconds"
    RUNS = "ci_daemon_job_run_seconds"
    ATTEMPTS = "ci_daemon_job_attempts"
    LEASES = "ci_daemon_lease_seconds"
    CENTS = "ci_daemon_lease_cost_cents"
    MAKING = "ci_daemon_vm_create_seconds"
    NOT_MADE = "ci_daemon_vm_create_failures"
    HITS = "ci_daemon_cache_hits"
    STORED = "ci_daemon_cache_stored"
    PULLS = "ci_daemon_image_pulls"
    RENDERS = "ci_daemon_renders"
    RESTARTS = "ci_daemon_actor_restarts"
    MAILS = "ci_daemon_mails"
    NOTIFIED = "ci_daemon_notification_attempts"
    DROPPED = "ci_daemon_dropped_events"
    DISCREPANCIES = "ci_daemon_ledger_discrepancies"


class EngineMetrics:
    """Metrics that nobody reads, as in `ci-daemon run`: events are accepted and not counted.

    `PrometheusMetrics` counts them; only a process that serves them imports it.
    """

    def collectors(self, pool_settings: Callable[[], PoolSettings], providers: Providers) -> Iterable[Collector]:
        """Return the collectors for Prometheus of what is counted, and of the pool's settings in force."""
        return ()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Time the creation of a VM, or count its failure, unless its image or snapshot is missing."""
        began = time.perf_counter()
        try:
            yield
        except VmError as error:
            if not isinstance(error, ImageNotFound | SnapshotNotFound):
                self._count(Metric.NOT_MADE)
            raise
        self._observe(Metric.MAKING, time.perf_counter() - began)

    def image(self, *, pulled: bool) -> None:
        """Count the pull of an image that jobs waited for."""
        self._count(Metric.PULLS, "pulled" if pulled else "failed")

    def granted(self, waited: float) -> None:
        """Observe how many seconds a job waited for its VM."""
        self._observe(Metric.WAITS, waited)

    def attempted(self, state: JobState, result: AttemptResult) -> None:
        """Count an attempt that moved its job to a state."""
        label = "retried" if state is JobState.SCHEDULED else state.value
        self._count(Metric.ATTEMPTS, label, result.outcome.error_code or NO_ERROR)

    def ended(self, lease: Lease) -> None:
        """Count a lease that a job returned: its price and its times."""
        self._count(Metric.CENTS, by=lease.amount_cents)
        if lease.finished_at is None:
            return
        self._observe(Metric.LEASES, (lease.finished_at - lease.created_at).total_seconds())
        if lease.started_at is not None:
            self._observe(Metric.RUNS, (lease.finished_at - lease.started_at).total_seconds())

    def built(self, build: Build) -> None:
        """Observe the duration of a build whose jobs have all ended."""
        if build.finished_at is not None:
            seconds = (build.finished_at - build.created_at).total_seconds()
            self._observe(Metric.BUILDS, seconds, build.state.value)

    def rendered(self, error: str | None = None) -> None:
        """Count a build that has a plan, or the error code because of which it has none."""
        self._count(Metric.RENDERS, error or NO_ERROR)

    def mailed(self, result: str) -> None:
        """Count an attempt at e-mail."""
        self._count(Metric.MAILS, result)

    def notified(self, result: str) -> None:
        """Count an attempt at a webhook about a build."""
        self._count(Metric.NOTIFIED, result)

    def hit(self) -> None:
        """Count a cache hit."""
        self._count(Metric.HITS)

    def stored(self) -> None:
        """Count a result that was stored in the cache."""
        self._count(Metric.STORED)

    def supervises(self, actor: type[Supervised[Any, Any]]) -> None:
        """Expect restarts of an actor of a class."""

    def restarted(self, actor: type[Supervised[Any, Any]]) -> None:
        """Count the restart of an actor of a class."""
        self._count(Metric.RESTARTS, actor.__name__)

    def dropped(self, job_uuid: str, state: JobState, event: JobEvent) -> None:
        """Count an event that no longer applies to its job's state, and log it (engine.md, "States")."""
        self._count(Metric.DROPPED, state.value, event.name.lower())
        _log.debug("job %s is %s: %s is dropped", job_uuid, state, event.name)

    def verified(self, discrepancies: int) -> None:
        """Note the number of discrepancies in the ledger."""

    def _count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter."""

    def _observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add to a distribution of times. A time that a change of the clock made negative counts as none."""
