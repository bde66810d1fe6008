"""Gauges of the storage for Prometheus, computed at each scrape. No query reads finished rows."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from storage import BuildState, LeaseState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from api.engine import Engine
    from storage import Storage

__all__ = ["ServiceGauges"]


State = TypeVar("State", BuildState, LeaseState)


class ServiceGauges(Collector):
    """The queue, builds, leases, disk, switches and balances."""

    def __init__(self, storage: Storage, engine: Engine) -> None:
        self._storage = storage
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the current figures."""
        stored = self._storage
        yield _gauge("ci_daemon_queued_jobs", "Jobs that wait for a VM.", stored.queue.length())
        longest = stored.queue.longest_wait()
        yield _gauge("ci_daemon_queue_longest_wait_seconds", "For how long the oldest has.", longest)
        rendering = len(stored.renders.unfinished())
        yield _gauge("ci_daemon_unfinished_renders", "Builds that are rendered, or wait for it.", rendering)
        builds = stored.builds.unfinished_counts()
        states = [state for state in BuildState if not state.terminal]
        yield _by_state("ci_daemon_unfinished_builds", "Builds that are not over.", states, builds)
        leases = stored.leases.counts()
        live = [state for state in LeaseState if state != LeaseState.ENDED]
        yield _by_state("ci_daemon_leases", "VMs that are there or being made.", live, leases)
        yield _gauge("ci_daemon_held_vms", "VMs of failed jobs, held for a look.", len(stored.holds.open()))
        drained = stored.switches.drained_since() is not None
        yield _gauge("ci_daemon_drained", "1 where the owner has drained this host.", drained)
        yield _gauge("ci_daemon_draining", "1 where the service is about to stop.", self._engine.draining)
        disk = shutil.disk_usage(stored.directory)
        yield _gauge("ci_daemon_disk_size_bytes", "What the state directory's disk holds.", disk.total)
        yield _gauge("ci_daemon_disk_free_bytes", "What the state directory's disk has left.", disk.free)
        yield _gauge("ci_daemon_database_bytes", "The database with its write-ahead log.", stored.database_bytes())
        snapshots = stored.snapshots.all()
        kept = sum(snapshot.bytes or 0 for snapshot in snapshots)
        yield _gauge("ci_daemon_snapshots", "Disks of jobs that are kept.", len(snapshots))
        yield _gauge("ci_daemon_snapshot_bytes", "What the snapshots that are measured take, the cache's too.", kept)
        yield _gauge("ci_daemon_cache_entries", "Results that later builds may find.", len(stored.cache.entries()))
        balance, overdrawn = stored.ledger.totals()
        yield _gauge("ci_daemon_balance_cents", "What all organizations have together, in cents.", balance)
        yield _gauge("ci_daemon_overdrawn_organizations", "Organizations that have less than nothing.", overdrawn)
        yield InfoMetricFamily("ci_daemon", "What is running.", {"version": version("ci-daemon")})


def _gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, told, value=value)


def _by_state(name: str, told: str, states: Iterable[State], counts: Mapping[State, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, told, labels=("state",))
    for state in states:
        family.add_metric((state.value,), counts.get(state, 0))
    return family
