"""What an owner asks of the whole service at a glance, at one cost however many builds there were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import peewee

from storage.models import BuildRow, JobRow, OrganizationRow, PipelineRow
from storage.statements import Columns, Query, slot, written

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["Balances", "Overview", "ServiceFault"]

_LOOKED_AT = 10_000
_OWN = ("internal_error", "lease_failed", "snapshot_failed", "vm_lost")


@dataclass(frozen=True, slots=True)
class ServiceFault:
    """A job that failed, for which not its command is to blame."""

    organization: str
    pipeline: str
    number: int
    step_key: str
    error_code: str
    error_message: str | None
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Balances:
    """The accounts of all organizations: ``cents`` in sum, and how many are at nothing or below."""

    cents: int
    empty: int


class Overview:
    """Figures of everybody together. Safe in any thread."""

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
        self._faults = Query(
            database,
            JobRow.select(*fault.selected)
            .join(BuildRow)
            .join(PipelineRow)
            .join(OrganizationRow)
            .where(recent, JobRow.error_code.in_(_OWN), JobRow.finished_at.is_null(is_null=False))
            .order_by(JobRow.finished_at.desc(), JobRow.id.desc())
            .limit(slot("limit")),
            fault,
        )
        summed = peewee.fn.COALESCE(peewee.fn.SUM(OrganizationRow.balance_cents), 0)
        empty = peewee.fn.COALESCE(peewee.fn.SUM(OrganizationRow.balance_cents <= 0), 0)
        self._balances = Query(
            database, OrganizationRow.select(summed, empty), lambda row: Balances(int(row[0]), int(row[1]))
        )

    def faults(self, limit: int) -> list[ServiceFault]:
        """Return the jobs that failed last by the service's fault, newest first, among the latest ten thousand jobs."""
        return self._faults.all(limit=limit)

    def balances(self) -> Balances:
        """Return what all organizations have together."""
        return written(self._balances.one())
