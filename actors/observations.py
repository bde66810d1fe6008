"""What the actors tell of themselves to who watches the service: figures for Prometheus, with names that tell units."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING, cast

import pykka
from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from queue import Queue

    from prometheus_client import Metric

    from actors.drops import Drops
    from storage import Lease

__all__ = ["EngineGauges", "Observations"]

_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)


class Observations(Collector):
    """What happened since the process began. Safe in any thread."""

    def __init__(self) -> None:
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

    def granted(self, waited: float) -> None:
        """Note how many seconds a job waited for the VM that it gets."""
        self._waits.observe(waited)

    def ended(self, lease: Lease) -> None:
        """Note a lease that a job gave back."""
        self._cents.inc(lease.amount_cents)
        if lease.finished_at is None:
            return
        self._leases.observe(max(0.0, (lease.finished_at - lease.created_at).total_seconds()))
        if lease.started_at is not None:
            self._runs.observe(max(0.0, (lease.finished_at - lease.started_at).total_seconds()))

    def collect(self) -> Iterator[Metric]:
        """Yield them all."""
        for observed in (self._waits, self._runs, self._leases, self._cents):
            yield from observed.collect()


class EngineGauges(Collector):
    """How the actors are at the moment of asking."""

    def __init__(self, max_vms: int, drops: Drops) -> None:
        self._max_vms = max_vms
        self._drops = drops

    def collect(self) -> Iterator[Metric]:
        """Look, without asking any actor."""
        yield GaugeMetricFamily("ci_daemon_vms_max", "VMs that jobs may hold at once.", value=self._max_vms)
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
