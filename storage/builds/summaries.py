"""Summaries: what jobs say of their build in Markdown (engine.md, "Summaries")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Columns, Query, Slots, Write, insert_into, slot
from storage.models.builds import JobRow, JobSummaryRow
from storage.records.jobs import JobSummary, ShownSummary

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.documents import Page

_SUMMARY = Columns.of(JobSummary, JobSummaryRow)
_SHOWN = Columns(ShownSummary, JobRow.id, JobRow.uuid, JobRow.name, JobSummaryRow.text, JobSummaryRow.is_cut)
_NEW: Slots[JobSummary] = Slots(JobSummary, JobSummaryRow)


class Summaries:
    """The summaries of jobs. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        this = JobSummaryRow.job == slot("job_id")
        self._of_job = Query(database, lambda: JobSummaryRow.select(*_SUMMARY.selected).where(this), _SUMMARY)
        self._of_build = Query(
            database,
            lambda: (
                JobSummaryRow.select(*_SHOWN.selected)
                .join(JobRow, on=JobRow.id == JobSummaryRow.job)
                .where(JobSummaryRow.build == slot("build_id"), JobSummaryRow.job > slot("after"))
                .order_by(JobSummaryRow.job)
                .limit(slot("limit"))
            ),
            _SHOWN,
        )
        self._insert = Write(database, lambda: insert_into(JobSummaryRow).on_conflict_replace())
        self._delete = Write(database, lambda: JobSummaryRow.delete().where(this))

    def of_job(self, job_id: int) -> JobSummary | None:
        """Return the summary of a job; None if its last command wrote none."""
        return self._of_job.one(job_id=job_id)

    def page_of_build(self, build_id: int, limit: int, after: int | None) -> Page[ShownSummary]:
        """Return the summaries of a build past the key ``after``, in the order of its jobs."""
        return self._of_build.page(limit, lambda summary: summary.id, build_id=build_id, after=after or 0)

    def store(self, summary: JobSummary) -> None:
        """Record the summary of a job in place of an earlier one."""
        with self._database.write():
            self._insert.run(**_NEW(summary))

    def discard(self, job_id: int) -> None:
        """Remove the summary of a job whose attempt does not count, or that runs again."""
        if self.of_job(job_id) is not None:
            with self._database.write():
                self._delete.run(job_id=job_id)

    def inherit(self, from_job_id: int, to_job_id: int, build_id: int) -> None:
        """Give a job the summary of another job, in place of its own. Part of the caller's transaction."""
        left = self.of_job(from_job_id)
        with self._database.write():
            self._delete.run(job_id=to_job_id)
            if left is not None:
                self._insert.run(**_NEW(JobSummary(to_job_id, build_id, left.text, left.is_cut)))
