"""Who gets the next VM: the organization that used least within the last hour, then who waits longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.models import EdgeRow, JobRow, LeaseRow
from storage.records import EdgeKind, JobState, QueuedJob, Shape
from storage.statements import Columns, Query, first, slot

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage.database import Database

__all__ = ["Queue"]

_HOUR = 3600 * 1_000_000

_PARENT = EdgeRow.select(EdgeRow.from_job).where(EdgeRow.to_job == JobRow.id, EdgeRow.kind == EdgeKind.BUILDS_IN)
_QUEUED = Columns(
    QueuedJob,
    JobRow.id,
    JobRow.build,
    JobRow.organization,
    Columns(Shape, JobRow.cpu, JobRow.memory_gb, JobRow.disk_gb),
    JobRow.image,
    JobRow.network,
    (_PARENT, int),
    JobRow.scheduled_at,
    JobRow.position,
)


class Queue:
    """The jobs in state ``scheduled``, in the order of their turn.

    An organization's usage is the seconds of its leases that started within the last hour. Costs an index look-up an
    organization that waits and a row a job that it returns, whatever the queue's length.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        waits = JobRow.state == JobState.SCHEDULED
        self._next_organization = Query(
            database,
            JobRow.select(JobRow.organization)
            .where(waits, JobRow.organization > slot("after"))
            .order_by(JobRow.organization)
            .limit(1),
            first,
        )
        ended_at = peewee.fn.COALESCE(LeaseRow.finished_at, slot("now"))
        self._usage = Query(
            database,
            LeaseRow.select(peewee.fn.COALESCE(peewee.fn.SUM(ended_at - LeaseRow.started_at), 0)).where(
                LeaseRow.organization == slot("organization_id"), LeaseRow.started_at > slot("since")
            ),
            first,
        )
        self._heads = Query(
            database,
            JobRow.select(*_QUEUED.selected)
            .where(waits, JobRow.organization == slot("organization_id"))
            .order_by(JobRow.scheduled_at, JobRow.position, JobRow.id)
            .limit(slot("limit")),
            _QUEUED,
        )

    def next(self, exclude_orgs: Collection[int], limit: int) -> list[QueuedJob]:
        """Return the next ``limit`` jobs, but those of some organizations."""
        by_usage: dict[int, list[int]] = {}
        for organization_id in self._waiting():
            if organization_id not in exclude_orgs:
                by_usage.setdefault(self._recent_usage(organization_id), []).append(organization_id)
        turns: list[QueuedJob] = []
        for usage in sorted(by_usage):
            heads = [
                job
                for organization_id in by_usage[usage]
                for job in self._heads.all(organization_id=organization_id, limit=limit - len(turns))
            ]
            heads.sort(key=lambda job: (job.scheduled_at, job.position, job.job_id))
            turns += heads[: limit - len(turns)]
            if len(turns) == limit:
                break
        return turns

    def _waiting(self) -> list[int]:
        organizations: list[int] = []
        found = self._next_organization.one(after=0)
        while found is not None:
            organizations.append(found)
            found = self._next_organization.one(after=found)
        return organizations

    def _recent_usage(self, organization_id: int) -> int:
        now = self._database.now()
        return self._usage.one(organization_id=organization_id, now=now, since=now - _HOUR) or 0
