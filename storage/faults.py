"""Jobs that failed by no fault of their commands: the service's own faults, and the ends that an operator forced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import peewee

from storage.models import BuildRow, JobRow, LeaseRow, OrganizationRow, PipelineRow
from storage.statements import Columns, Query, slot

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["Faults", "JobFault"]

_LOOKED_AT = 10_000
_OWN = ("internal_error", "lease_failed", "snapshot_failed", "vm_lost")


@dataclass(frozen=True, slots=True)
class JobFault:
    """A job that failed by no fault of its command; ``forced_by`` is the operator who ended its VM, if one did."""

    organization: str
    pipeline: str
    number: int
    step_key: str
    error_code: str
    error_message: str | None
    finished_at: datetime
    forced_by: str | None


class Faults:
    """Recent failures of jobs, at one cost however many jobs there were. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        fault = Columns(
            JobFault,
            OrganizationRow.slug,
            PipelineRow.slug,
            BuildRow.number,
            JobRow.step_key,
            JobRow.error_code,
            JobRow.error_message,
            JobRow.finished_at,
            LeaseRow.killed_by,
        )
        newest = JobRow.alias()
        recent = JobRow.id > newest.select(peewee.fn.MAX(newest.id) - _LOOKED_AT)
        faults = (
            JobRow.select(*fault.selected)
            .join(BuildRow)
            .join(PipelineRow)
            .join(OrganizationRow)
            .join(
                LeaseRow,
                peewee.JOIN.LEFT_OUTER,
                on=(LeaseRow.job == JobRow.id) & (LeaseRow.attempt == JobRow.attempt),
            )
            .where(recent, JobRow.error_code.in_(_OWN), JobRow.finished_at.is_null(is_null=False))
            .order_by(JobRow.id.desc())
            .limit(slot("limit"))
        )
        self._latest = Query(database, faults.where(LeaseRow.killed_by.is_null()), fault)
        self._forced = Query(database, faults.where(LeaseRow.killed_by.is_null(is_null=False)), fault)

    def latest(self, limit: int) -> list[JobFault]:
        """Return the latest faults of the service, newest first, among the ten thousand jobs that were made last."""
        return self._latest.all(limit=limit)

    def forced(self, limit: int) -> list[JobFault]:
        """Return the latest failures that an operator forced, newest first, among the same jobs."""
        return self._forced.all(limit=limit)
