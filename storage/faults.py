"""Jobs whose failure is not their command's: faults of the service, and ends that an operator forced."""

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
    """A job whose failure is not its command's; ``forced_by`` is the operator who ended its VM, if any."""

    organization: str
    pipeline: str
    number: int
    step_key: str
    error_code: str
    error_message: str | None
    finished_at: datetime
    forced_by: str | None


class Faults:
    """Recent faults of jobs, at a cost that does not grow with the number of jobs. Safe in any thread."""

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
        """Return the latest faults of the service among the newest 10 000 jobs, newest first."""
        return self._latest.all(limit=limit)

    def forced(self, limit: int) -> list[JobFault]:
        """Return the latest failures that an operator forced among the newest 10 000 jobs, newest first."""
        return self._forced.all(limit=limit)
