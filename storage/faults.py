"""Jobs that failed for which the service is to blame, and not their commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import peewee

from storage.models import BuildRow, JobRow, OrganizationRow, PipelineRow
from storage.statements import Columns, Query, slot

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["Faults", "ServiceFault"]

_LOOKED_AT = 10_000
_OWN = ("internal_error", "lease_failed", "snapshot_failed", "vm_lost")


@dataclass(frozen=True, slots=True)
class ServiceFault:
    """A job that the service failed."""

    organization: str
    pipeline: str
    number: int
    step_key: str
    error_code: str
    error_message: str | None
    finished_at: datetime


class Faults:
    """What the service did wrong of late, at one cost however many jobs there were. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        fault = Columns(
            ServiceFault,
            OrganizationRow.slug,
            PipelineRow.slug,
            BuildRow.number,
            JobRow.step_key,
            JobRow.error_code,
            JobRow.error_message,
            JobRow.finished_at,
        )
        newest = JobRow.alias()
        recent = JobRow.id > newest.select(peewee.fn.MAX(newest.id) - _LOOKED_AT)
        self._latest = Query(
            database,
            JobRow.select(*fault.selected)
            .join(BuildRow)
            .join(PipelineRow)
            .join(OrganizationRow)
            .where(recent, JobRow.error_code.in_(_OWN), JobRow.finished_at.is_null(is_null=False))
            .order_by(JobRow.id.desc())
            .limit(slot("limit")),
            fault,
        )

    def latest(self, limit: int) -> list[ServiceFault]:
        """Return the latest of them, newest first, among the ten thousand jobs that were made last."""
        return self._latest.all(limit=limit)
