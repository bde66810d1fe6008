"""Jobs that failed through the service, or because an operator ended their VM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.data_classes import immutable
from storage.database.statements import Columns, Query, slot
from storage.models import BuildRow, JobRow, LeaseRow, OrganizationRow, PipelineRow
from storage.records import JobErrorCode

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.connection import Database

_NEWEST_JOBS = 10_000
_OF_SERVICE = tuple(code for code in JobErrorCode if code.of_service)


@immutable
class ServiceFailure:
    """A job that did not fail through its command; ``forced_by`` is the operator who ended its VM, if any."""

    organization: str
    pipeline: str
    number: int
    step_key: str
    error_code: str
    error_message: str | None
    finished_at: datetime
    forced_by: str | None


class ServiceFailures:
    """Recent failures of jobs, at a cost that does not grow with the number of jobs. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        failure = Columns.of(
            ServiceFailure,
            JobRow,
            organization=OrganizationRow.slug,
            pipeline=PipelineRow.slug,
            number=BuildRow.number,
            forced_by=LeaseRow.killed_by,
        )
        newest = JobRow.alias()
        recent = JobRow.id > newest.select(peewee.fn.MAX(newest.id) - _NEWEST_JOBS)
        failures = (
            JobRow.select(*failure.selected)
            .join(BuildRow)
            .join(PipelineRow)
            .join(OrganizationRow)
            .join(
                LeaseRow,
                peewee.JOIN.LEFT_OUTER,
                on=(LeaseRow.job == JobRow.id) & (LeaseRow.attempt == JobRow.attempt),
            )
            .where(recent, JobRow.error_code.in_(_OF_SERVICE), JobRow.finished_at.is_null(is_null=False))
            .order_by(JobRow.id.desc())
            .limit(slot("limit"))
        )
        self._latest = Query(database, failures.where(LeaseRow.killed_by.is_null()), failure)
        self._forced = Query(database, failures.where(LeaseRow.killed_by.is_null(is_null=False)), failure)

    def latest(self, limit: int) -> list[ServiceFailure]:
        """Return the latest failures through the service among the newest 10 000 jobs, newest first."""
        return self._latest.all(limit=limit)

    def forced(self, limit: int) -> list[ServiceFailure]:
        """Return the latest failures that an operator forced among the newest 10 000 jobs, newest first."""
        return self._forced.all(limit=limit)
