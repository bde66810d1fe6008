"""Prometheus metrics of the engine. Each name includes its unit."""

from __future__ import annotations

import time
from collections import Counter as Tally
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pykka
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from actors.vms import ImageNotFound, SnapshotNotFound, VmError
from storage import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from queue import Queue

    from prometheus_client import Metric

    from actors.drops import Drops
    from actors.outcome import Ending
    from actors.runtime import Configuration
    from storage import Build, Lease

__all__ = ["EngineGauges", "Observations"]

_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
_MAKING_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 120)
_NO_ERROR = "-"
_TO_BLAME = ("internal_error", "lease_failed", "vm_lost")
_ACTORS = ("BuildSupervisor", "ImagePuller", "JobActor", "LeasePool", "LogHub", "RenderPool")


class Observations(Collector):
    """Metrics of the events since the process began. Safe in any thread."""

    def __init__(self) -> None:
        self._builds = Histogram(
            "ci_daemon_build_seconds",
            "From a build's creation to its end, by the state that it ended in.",
            labelnames=("state",),
            buckets=_SECONDS,
            registry=None,
        )
        self._waits = Histogram(
            "ci_daemon_job_queue_wait_seconds",
            "From when a job was ready to its VM.",
            buckets=_SECONDS,
            registry=None,
        )
        self._runs = Histogram(
            "ci_daemon_job_run_seconds",
            "From when a job's command started to the end of what is billed, one for each attempt.",
            buckets=_SECONDS,
            registry=None,
        )
        self._attempts = Counter(
            "ci_daemon_job_attempts",
            "Attempts that ended, by what became of the job (retried: it goes into another) and their error code.",
            labelnames=("result", "error"),
            registry=None,
        )
        for error in _TO_BLAME:  # Prometheus sees no increase in a counter that first appears with its first event
            self._attempts.labels("failed", error)
            self._attempts.labels("retried", error)
        self._leases = Histogram(
            "ci_daemon_lease_seconds",
            "From when a VM was ordered to the end of its lease, without VMs that no job ever had.",
            buckets=_SECONDS,
            registry=None,
        )
        self._cents = Counter(
            "ci_daemon_lease_cost_cents",
            "What the leases that jobs gave back cost in cents, since the process began.",
            registry=None,
        )
        self._making = Histogram(
            "ci_daemon_vm_create_seconds",
            "What it took to make a VM for a job, or a warm one, where it could be made.",
            buckets=_MAKING_SECONDS,
            registry=None,
        )
        self._not_made = Counter(
            "ci_daemon_vm_create_failures", "VMs for jobs, or warm ones, that could not be made.", registry=None
        )
        self._hits = Counter("ci_daemon_cache_hits", "Jobs that passed by what an earlier build left.", registry=None)
        self._stored = Counter("ci_daemon_cache_stored", "Results kept for later builds.", registry=None)
        self._pulls = Counter(
            "ci_daemon_image_pulls", "Images that jobs waited for, by what came of it.", ("result",), registry=None
        )
        for result in ("pulled", "failed"):
            self._pulls.labels(result)
        self._renders = Counter(
            "ci_daemon_renders", "Builds rendered: planned, or refused by an error code.", ("error",), registry=None
        )
        for error in (_NO_ERROR, "render_failed", "internal_error"):
            self._renders.labels(error)
        self._restarts = Counter(
            "ci_daemon_actor_restarts", "Actors that died and were started again.", ("actor",), registry=None
        )
        for actor in _ACTORS:
            self._restarts.labels(actor)
        self._discrepancies = Gauge(
            "ci_daemon_ledger_discrepancies",
            "What was wrong in the ledger when it was last verified, which is at start and every hour.",
            registry=None,
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

    def attempted(self, state: JobState, ending: Ending) -> None:
        """Count an attempt that moved its job to a state."""
        result = "retried" if state is JobState.SCHEDULED else state.value
        self._attempts.labels(result, ending.outcome.error_code or _NO_ERROR).inc()

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

    def hit(self) -> None:
        """Count a cache hit."""
        self._hits.inc()

    def stored(self) -> None:
        """Count a result that was stored in the cache."""
        self._stored.inc()

    def restarted(self, actor: str) -> None:
        """Count the restart of an actor of a class."""
        self._restarts.labels(actor).inc()

    def verified(self, discrepancies: int) -> None:
        """Set the number of discrepancies in the ledger."""
        self._discrepancies.set(discrepancies)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        for observed in vars(self).values():
            yield from observed.collect()


class EngineGauges(Collector):
    """Gauges of the settings and the actors, read when Prometheus asks."""

    def __init__(self, configuration: Configuration, drops: Drops) -> None:
        self._configuration = configuration
        self._drops = drops

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, without a call to any actor."""
        pool = self._configuration.settings.pool
        warm = pool.warm + sum(pool.warm_images.values())
        yield GaugeMetricFamily("ci_daemon_vms_max", "VMs that jobs may hold at once.", value=pool.host().vms)
        yield GaugeMetricFamily("ci_daemon_warm_vms_wanted", "VMs to be kept warm, where there is room.", warm)
        told = "So little free disk that no job starts."
        yield GaugeMetricFamily("ci_daemon_disk_low_bytes", told, pool.low_disk_gb * 2**30)
        dropped = CounterMetricFamily(
            "ci_daemon_dropped_events", "Events that came too late to mean anything.", labels=("state", "event")
        )
        for (state, event), count in self._drops.counts().items():
            dropped.add_metric((state, event.name.lower()), count)
        yield dropped
        alive: Tally[str] = Tally()
        mailboxes: Tally[str] = Tally()
        for actor in pykka.ActorRegistry.get_all():
            alive[actor.actor_class.__name__] += 1
            mailboxes[actor.actor_class.__name__] += cast("Queue[object]", actor.actor_inbox).qsize()
        yield _by_class("ci_daemon_actors", "Actors that live.", alive)
        yield _by_class("ci_daemon_actor_mailbox_messages", "Messages that actors have yet to read.", mailboxes)


def _by_class(name: str, told: str, counts: Tally[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, told, labels=("actor",))
    for actor, count in counts.items():
        family.add_metric((actor,), count)
    return family
