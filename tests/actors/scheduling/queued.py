"""Queued jobs, for tests of fairness and of the scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from storage import QueuedJob, Shape

SMALL = Shape(1, 1, 1)

_DAY = datetime(2026, 3, 1, tzinfo=UTC)
_ids = count(1)


def job(organization_id: int, *, weight: int = 1, since: float = 0.0, shape: Shape = SMALL) -> QueuedJob:
    """Return a job of an organization, queued ``since`` a second of a day."""
    return QueuedJob(
        job_id=next(_ids),
        build_id=1,
        organization_id=organization_id,
        weight=weight,
        shape=shape,
        image=None,
        network=True,
        parent_snapshot_job_id=None,
        scheduled_at=_DAY + timedelta(seconds=since),
        position=0,
    )
