"""Prometheus metrics of the engine. Each name includes its unit."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING, Any, cast

import pykka
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from actors.metrics import NO_ERROR, EngineMetrics, Metric
from storage import BuildErrorCode, JobErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from queue import SimpleQueue

    from prometheus_client import Metric as Family

    from actors.settings import PoolSettings
    from actors.supervision import Supervised
    from actors.vms import Providers

_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
_MAKING_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 120)


class PrometheusMetrics(EngineMetrics, Collector):
    """Metrics of the events since the process began. Safe in any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._discrepancies = Gauge(
            Metric.DISCREPANCIES,
            "Discrepancies in the ledger when it was last verified, at start and every hour.",
            registry=self._registry,
        )
        self._histograms = {
            Metric.BUILDS: self._histogram(
                Metric.BUILDS, "Seconds from a build's creation to its end, by its final state.", labels=("state",)
            ),
            Metric.WAITS: self._histogram(Metric.WAITS, "Seconds that a ready job waited for its VM."),
            Metric.RUNS: self._histogram(
                Metric.RUNS, "Seconds from the start of an attempt's command to the end of its billing."
            ),
            Metric.LEASES: self._histogram(
                Metric.LEASES, "Seconds from the request for a VM to the end of its lease, for VMs that jobs had."
            ),
            Metric.MAKING: self._histogram(
                Metric.MAKING, "Time to make a VM for a job, or to park one, if it could be made.", _MAKING_SECONDS
            ),
        }
        of_service = [code for code in JobErrorCode if code.of_service]
        self._counters = {
            Metric.ATTEMPTS: self._counter(
                Metric.ATTEMPTS,
                "Attempts that ended, by the result of the job (retried: another attempt follows) and error code.",
                ("result", "error"),
                *((result, code) for code in of_service for result in ("failed", "retried")),
            ),
            Metric.CENTS: self._counter(
                Metric.CENTS, "Price in cents of the jobs' leases that ended since the process began."
            ),
            Metric.NOT_MADE: self._counter(Metric.NOT_MADE, "VMs for jobs, or parked ones, that could not be made."),
            Metric.HITS: self._counter(Metric.HITS, "Jobs that passed on a cache hit."),
            Metric.STORED: self._counter(Metric.STORED, "Results kept for later builds."),
            Metric.PULLS: self._counter(
                Metric.PULLS, "Pulls of images that jobs waited for, by result.", ("result",), ("pulled",), ("failed",)
            ),
            Metric.RENDERS: self._counter(
                Metric.RENDERS,
                "Builds rendered: planned, or refused by an error code.",
                ("error",),
                *((error,) for error in (NO_ERROR, BuildErrorCode.RENDER_FAILED, BuildErrorCode.INTERNAL_ERROR)),
            ),
            Metric.RESTARTS: self._counter(Metric.RESTARTS, "Actors that died and were restarted.", ("actor",)),
            Metric.MAILS: self._counter(
                Metric.MAILS,
                "Attempts at e-mail by result: sent, deferred to another attempt, given up, or expired before.",
                ("result",),
                *((result,) for result in ("sent", "deferred", "given_up", "expired")),
            ),
            Metric.NOTIFIED: self._counter(
                Metric.NOTIFIED,
                "Attempts at webhooks about builds, by result.",
                ("result",),
                ("delivered",),
                ("failed",),
            ),
            Metric.DROPPED: self._counter(
                Metric.DROPPED, "Events that no longer applied to the state of their job.", ("state", "event")
            ),
        }

    def collectors(self, pool_settings: Callable[[], PoolSettings], providers: Providers) -> Iterable[Collector]:
        """Return the collectors of these metrics, and of gauges that are read when Prometheus asks."""
        return _EngineGauges(pool_settings, providers), self

    def collect(self) -> Iterator[Family]:
        """Yield all metrics."""
        yield from self._registry.collect()

    def _histogram(
        self, name: str, help_text: str, buckets: tuple[float, ...] = _SECONDS, labels: tuple[str, ...] = ()
    ) -> Histogram:
        return Histogram(name, help_text, labels, buckets=buckets, registry=self._registry)

    def _counter(self, name: str, help_text: str, labels: tuple[str, ...] = (), *known: tuple[str, ...]) -> Counter:
        """Return a counter that is 0 for the known values of its labels.

        Prometheus sees no increase in a counter that first appears with its first event.
        """
        counter = Counter(name, help_text, labels, registry=self._registry)
        for values in known:
            counter.labels(*values)
        return counter

    def _count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        counter = self._counters[metric]
        (counter.labels(*labels) if labels else counter).inc(by)

    def _observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        histogram = self._histograms[metric]
        (histogram.labels(*labels) if labels else histogram).observe(max(0.0, seconds))

    def supervises(self, actor: type[Supervised[Any, Any]]) -> None:
        """Begin the restarts of actors of a class at 0."""
        self._counters[Metric.RESTARTS].labels(actor.__name__)

    def verified(self, discrepancies: int) -> None:
        """Set the number of discrepancies in the ledger."""
        self._discrepancies.set(discrepancies)


class _EngineGauges(Collector):
    """Gauges of the pool's settings in force and of the actors, read when Prometheus asks."""

    def __init__(self, pool_settings: Callable[[], PoolSettings], providers: Providers) -> None:
        self._pool_settings = pool_settings
        self._providers = providers

    def collect(self) -> Iterator[Family]:
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
            mailboxes[actor.actor_class.__name__] += cast("SimpleQueue[object]", actor.actor_inbox).qsize()
        yield _by_class("ci_daemon_actors", "Running actors.", alive)
        yield _by_class("ci_daemon_actor_mailbox_messages", "Messages that wait in mailboxes.", mailboxes)


def _by_class(name: str, help_text: str, counts: Tally[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=("actor",))
    for actor, count in counts.items():
        family.add_metric((actor,), count)
    return family
