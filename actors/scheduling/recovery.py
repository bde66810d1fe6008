"""Loading of the jobs' leases and of recent usage, for a new pool and for the status commands."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from actors.scheduling.fairness import USAGE_SECONDS, FairShare

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Clock, Lease, Storage


def load_fair_share(storage: Storage, clock: Clock) -> FairShare:
    """Load the VMs in use and the recent usage of all organizations."""
    fair_share = FairShare()
    for use in storage.queue.past_use(timedelta(seconds=USAGE_SECONDS)):
        began, ended = monotonic(storage, clock, use.started_at), monotonic(storage, clock, use.finished_at)
        fair_share.add_usage(use.organization_id, use.cpu, began, ended)
    for lease in leases_of_jobs(storage).values():
        if lease.organization_id is not None:
            fair_share.grant(lease.id, lease.organization_id, lease.shape, monotonic(storage, clock, lease.started_at))
    return fair_share


def leases_of_jobs(storage: Storage) -> dict[int, Lease]:
    """Return the live leases for jobs, parked ones too, by row id; those of renders are left out."""
    return {lease.id: lease for lease in storage.leases.live() if lease.build_id is None}


def monotonic(storage: Storage, clock: Clock, instant: datetime | None) -> float:
    """Convert an instant of the past, None for now, to seconds of the monotonic clock."""
    return clock.monotonic() - (0.0 if instant is None else storage.timeline.seconds_since(instant))
