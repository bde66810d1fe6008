"""Metrics of the service and its requests for Prometheus. No query at a scrape reads finished rows."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from storage import BuildState, DatabaseDamaged, LeaseState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import falcon
    from prometheus_client import Metric

    from api.engine import EngineInterface
    from api.request import ApiRequest
    from storage import Storage

State = TypeVar("State", BuildState, LeaseState)

_NO_ROUTE = "-"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_METHOD = "other"


def metrics_registry(storage: Storage, engine: EngineInterface) -> CollectorRegistry:
    """Return a registry of one service's metrics: storage, engine and process."""
    registry = CollectorRegistry()
    for collector in (ServiceMetrics(storage, engine), *engine.collectors()):
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class ServiceMetrics(Collector):
    """Gauges of the queue, builds, leases, disk, drain and mail and balances."""

    def __init__(self, storage: Storage, engine: EngineInterface) -> None:
        self._storage = storage
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the current figures, up to the first that cannot be read because a page is damaged."""
        damaged = self._storage.integrity.damage is not None
        name, meaning = "ci_daemon_database_damaged", "1 while a page of the database is known to be damaged, else 0."
        yield _gauge(name, meaning, damaged)
        with suppress(DatabaseDamaged):
            yield from self._stored()

    def _stored(self) -> Iterator[Metric]:
        stored = self._storage
        yield _gauge("ci_daemon_queued_jobs", "Jobs that wait for a VM.", stored.queue.length())
        longest = stored.queue.longest_wait()
        yield _gauge(
            "ci_daemon_queue_longest_wait_seconds", "Seconds that the oldest of these jobs has waited.", longest
        )
        rendering = len(stored.renders.due())
        yield _gauge("ci_daemon_unfinished_renders", "Builds that are being rendered or wait to be.", rendering)
        builds = stored.builds.unfinished_counts()
        states = [state for state in BuildState if not state.terminal]
        yield _by_state("ci_daemon_unfinished_builds", "Builds that have not ended, by state.", states, builds)
        leases = stored.leases.counts()
        live = [state for state in LeaseState if state != LeaseState.ENDED]
        yield _by_state("ci_daemon_leases", "Leases whose VM exists or is being created, by state.", live, leases)
        members = GaugeMetricFamily(
            "ci_daemon_member_leases", "Leases whose VM is on a member of a cluster, by member.", labels=("member",)
        )
        for member, count in stored.leases.members().items():
            members.add_metric((member,), count)
        yield members
        yield _gauge("ci_daemon_held_vms", "VMs of failed jobs that are held for debugging.", len(stored.holds.open()))
        waiting = stored.mail.totals().waiting
        yield _gauge("ci_daemon_waiting_mails", "Mails that wait for the mail server.", waiting)
        drained = stored.switches.drained_since() is not None
        yield _gauge("ci_daemon_drained", "1 while this host is drained, else 0.", drained)
        yield _gauge("ci_daemon_draining", "1 while the service is about to stop, else 0.", self._engine.draining)
        disk = shutil.disk_usage(stored.directory)
        yield _gauge(
            "ci_daemon_disk_size_bytes", "Size of the file system of the state directory, in bytes.", disk.total
        )
        yield _gauge(
            "ci_daemon_disk_free_bytes", "Free space of the file system of the state directory, in bytes.", disk.free
        )
        yield _gauge(
            "ci_daemon_database_bytes",
            "Size of the database and its write-ahead log, in bytes.",
            stored.database_bytes(),
        )
        snapshots = stored.snapshots.all()
        kept = sum(snapshot.bytes or 0 for snapshot in snapshots)
        yield _gauge("ci_daemon_snapshots", "Snapshots of job disks.", len(snapshots))
        yield _gauge(
            "ci_daemon_snapshot_bytes",
            "Disk space of the snapshots with a measured size, cached ones included, in bytes.",
            kept,
        )
        yield _gauge("ci_daemon_cache_entries", "Results in the cache.", len(stored.cache.entries()))
        balance, overdrawn = stored.ledger.totals()
        yield _gauge("ci_daemon_balance_cents", "Sum of the balances of all organizations, in cents.", balance)
        yield _gauge("ci_daemon_overdrawn_organizations", "Organizations with a negative balance.", overdrawn)
        yield InfoMetricFamily("ci_daemon", "Version of the service.", {"version": version("ci-daemon")})


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, value=value)


def _by_state(name: str, meaning: str, states: Iterable[State], counts: Mapping[State, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=("state",))
    for state in states:
        family.add_metric((state.value,), counts.get(state, 0))
    return family


class RequestMetrics:
    """Middleware that counts responses by route, not by path: callers must not be able to make up labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._responses = Counter(
            "ci_daemon_http_requests",
            "Requests with a response.",
            labelnames=("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "ci_daemon_http_request_seconds",
            "Seconds from a request to the start of its response.",
            labelnames=("method", "route"),
            registry=registry,
        )

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Count a response."""
        method = req.asked if req.asked in _METHODS else _NO_METHOD
        route = req.uri_template or _NO_ROUTE
        self._responses.labels(method, route, str(resp.status_code)).inc()
        self._seconds.labels(method, route).observe(time.perf_counter() - req.began)
