"""Prometheus metrics of the engine. Each name includes its unit."""

from __future__ import annotations

import logging
import time
from collections import Counter as Tally
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pykka
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from actors.vms import ImageNotFound, SnapshotNotFound, VmError
from storage import BuildErrorCode, JobErrorCode, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from queue import Queue

    from prometheus_client import Metric

    from actors.builds.outcome import AttemptResult
    from actors.builds.states import JobEvent
    from actors.settings import PoolSettings
    from actors.vms import Providers
    from storage import Build, Lease

__all__ = ["EngineGauges", "EngineMetrics"]

_log = logging.getLogger(__name__)

_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
_MAKING_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 120)
_NO_ERROR = "-"
_ACTORS = ("BuildSupervisor", "ImagePuller", "JobActor", "LeasePool", "MailSender", "Notifier", "RenderPool")


class EngineMetrics(Collector):
    """Metrics of the events since the process began. Safe in any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._builds = Histogram(
            "ci_daemon_build_seconds",
            "Seconds from a build's creation to its end, by its final state.",
            labelnames=("state",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._waits = Histogram(
            "ci_daemon_job_queue_wait_seconds",
            "Seconds that a ready job waited for its VM.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._runs = Histogram(
            "ci_daemon_job_run_seconds",
            "Seconds from the start of an attempt's command to the end of its billing.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._attempts = Counter(
            "ci_daemon_job_attempts",
            "Attempts that ended, by the result of the job (retried: another attempt follows) and error code.",
            labelnames=("result", "error"),
            registry=self._registry,
        )
        for code in JobErrorCode:  # Prometheus sees no increase in a counter that first appears with its first event
            if code.of_service:
                self._attempts.labels("failed", code)
                self._attempts.labels("retried", code)
        self._leases = Histogram(
            "ci_daemon_lease_seconds",
            "Seconds from the request for a VM to the end of its lease, for VMs that jobs had.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._cents = Counter(
            "ci_daemon_lease_cost_cents",
            "Price in cents of the jobs' leases that ended since the process began.",
            registry=self._registry,
        )
        self._making = Histogram(
            "ci_daemon_vm_create_seconds",
            "Time to make a VM for a job, or to park one, if it could be made.",
            buckets=_MAKING_SECONDS,
            registry=self._registry,
        )
        self._not_made = Counter(
            "ci_daemon_vm_create_failures",
            "VMs for jobs, or parked ones, that could not be made.",
            registry=self._registry,
        )
        self._hits = Counter("ci_daemon_cache_hits", "Jobs that passed on a cache hit.", registry=self._registry)
        self._stored = Counter("ci_daemon_cache_stored", "Results kept for later builds.", registry=self._registry)
        self._pulls = Counter(
            "ci_daemon_image_pulls",
            "Pulls of images that jobs waited for, by result.",
            ("result",),
            registry=self._registry,
        )
        for result in ("pulled", "failed"):
            self._pulls.labels(result)
        self._renders = Counter(
            "ci_daemon_renders",
            "Builds rendered: planned, or refused by an error code.",
            ("error",),
            registry=self._registry,
        )
        for error in (_NO_ERROR, BuildErrorCode.RENDER_FAILED, BuildErrorCode.INTERNAL_ERROR):
            self._renders.labels(error)
        self._restarts = Counter(
            "ci_daemon_actor_restarts", "Actors that died and were restarted.", ("actor",), registry=self._registry
        )
        for actor in _ACTORS:
            self._restarts.labels(actor)
        self._mails = Counter(
            "ci_daemon_mails",
            "Attempts at e-mail by result: sent, deferred to another attempt, given up, or expired before.",
            ("result",),
            registry=self._registry,
        )
        for result in ("sent", "deferred", "given_up", "expired"):
            self._mails.labels(result)
        self._notified = Counter(
            "ci_daemon_notification_attempts",
            "Attempts at webhooks about builds, by result.",
            ("result",),
            registry=self._registry,
        )
        for result in ("delivered", "failed"):
            self._notified.labels(result)
        self._dropped = Counter(
            "ci_daemon_dropped_events",
            "Events that no longer applied to the state of their job.",
            labelnames=("state", "event"),
            registry=self._registry,
        )
        self._discrepancies = Gauge(
            "ci_daemon_ledger_discrepancies",
            "Discrepancies in the ledger when it was last verified, at start and every hour.",
            registry=self._registry,
        )

    @contextmanager
    def making(self) -> Iterator[None]:
        """Time the creation of a VM, or count its failure, unless its image or snapshot is missing."""
        began = time.perf_counter()
        try:
            yield
        except VmError as error:
            if not isinstance(error, ImageNotFound | SnapshotNotFound):
                self._not_made.inc()
            raise
        self._making.observe(time.perf_counter() - began)

    def image(self, *, pulled: bool) -> None:
        """Count the pull of an image that jobs waited for."""
        self._pulls.labels("pulled" if pulled else "failed").inc()

    def granted(self, waited: float) -> None:
        """Observe how many seconds a job waited for its VM."""
        self._waits.observe(waited)

    def attempted(self, state: JobState, result: AttemptResult) -> None:
        """Count an attempt that moved its job to a state."""
        label = "retried" if state is JobState.SCHEDULED else state.value
        self._attempts.labels(label, result.outcome.error_code or _NO_ERROR).inc()

    def ended(self, lease: Lease) -> None:
        """Count a lease that a job returned: its price and its times."""
        self._cents.inc(lease.amount_cents)
        if lease.finished_at is None:
            return
        self._leases.observe(max(0.0, (lease.finished_at - lease.created_at).total_seconds()))
        if lease.started_at is not None:
            self._runs.observe(max(0.0, (lease.finished_at - lease.started_at).total_seconds()))

    def built(self, build: Build) -> None:
        """Observe the duration of a build whose jobs have all ended."""
        if build.finished_at is not None:
            seconds = (build.finished_at - build.created_at).total_seconds()
            self._builds.labels(build.state.value).observe(max(0.0, seconds))

    def rendered(self, error: str | None = None) -> None:
        """Count a build that has a plan, or the error code because of which it has none."""
        self._renders.labels(error or _NO_ERROR).inc()

    def mailed(self, result: str) -> None:
        """Count an attempt at e-mail."""
        self._mails.labels(result).inc()

    def notified(self, result: str) -> None:
        """Count an attempt at a webhook about a build."""
        self._notified.labels(result).inc()

    def hit(self) -> None:
        """Count a cache hit."""
        self._hits.inc()

    def stored(self) -> None:
        """Count a result that was stored in the cache."""
        self._stored.inc()

    def restarted(self, actor: str) -> None:
        """Count the restart of an actor of a class."""
        self._restarts.labels(actor).inc()

    def dropped(self, job_uuid: str, state: JobState, event: JobEvent) -> None:
        """Count an event that no longer applies to its job's state, and log it (engine.md, "States")."""
        self._dropped.labels(state.value, event.name.lower()).inc()
        _log.debug("job %s is %s: %s is dropped", job_uuid, state, event.name)

    def verified(self, discrepancies: int) -> None:
        """Set the number of discrepancies in the ledger."""
        self._discrepancies.set(discrepancies)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._registry.collect()


class EngineGauges(Collector):
    """Gauges of the pool's settings in force and of the actors, read when Prometheus asks."""

    def __init__(self, pool_settings: Callable[[], PoolSettings], providers: Providers) -> None:
        self._pool_settings = pool_settings
        self._providers = providers

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, without a call to any actor."""
        pool = self._pool_settings()
        most = pool.host(self._providers.named(pool.provider).size()).vms
        yield GaugeMetricFamily("ci_daemon_vms_max", "VMs that jobs may hold at once.", value=most)
        yield GaugeMetricFamily("ci_daemon_parked_vms_wanted", "VMs to be parked, where there is room.", pool.parked)
        help_text = "Free disk below which no job starts."
        yield GaugeMetricFamily("ci_daemon_disk_low_bytes", help_text, pool.low_disk_gb * 2**30)
        alive: Tally[str] = Tally()
        mailboxes: Tally[str] = Tally()
        for actor in pykka.ActorRegistry.get_all():
            alive[actor.actor_class.__name__] += 1
            mailboxes[actor.actor_class.__name__] += cast("Queue[object]", actor.actor_inbox).qsize()
        yield _by_class("ci_daemon_actors", "Running actors.", alive)
        yield _by_class("ci_daemon_actor_mailbox_messages", "Messages that wait in mailboxes.", mailboxes)


def _by_class(name: str, help_text: str, counts: Tally[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=("actor",))
    for actor, count in counts.items():
        family.add_metric((actor,), count)
    return family
