"""Outputs, summaries and annotations, which jobs tell besides their logs (engine.md, "Outputs")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot
from storage.models.builds import AnnotationRow, EdgeRow, JobOutputsRow, JobRow, JobSummaryRow
from storage.models.leases import CacheRow, SnapshotRow
from storage.records.jobs import Annotation, GivenOutputs, JobOutputs, JobSummary, ShownAnnotation, ShownSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database
    from storage.documents import Page
    from storage.models.row import Row

_OUTPUTS = Columns.of(JobOutputs, JobOutputsRow)
_GIVEN = Columns(GivenOutputs, JobRow.position, JobRow.step_key, JobOutputsRow.variables)
_SUMMARY = Columns(ShownSummary, JobRow.id, JobRow.uuid, JobRow.name, JobSummaryRow.text, JobSummaryRow.is_cut)
_ANNOTATION = Columns(
    ShownAnnotation, AnnotationRow.id, JobRow.uuid, JobRow.name, Columns.of(Annotation, AnnotationRow)
)
_NEW_OUTPUTS: Slots[JobOutputs] = Slots(JobOutputs, JobOutputsRow)
_NEW_SUMMARY: Slots[JobSummary] = Slots(JobSummary, JobSummaryRow)
_NEW_ANNOTATION: Slots[Annotation] = Slots(Annotation, AnnotationRow)
_ROWS = (JobOutputsRow, JobSummaryRow, AnnotationRow)


class Told:
    """Outputs, summaries and annotations of the last commands of jobs. Safe in any thread.

    They are kept for as long as the log of the build; outputs also for as long as another job may pass with the job's
    disk.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._outputs = Query(
            database,
            lambda: JobOutputsRow.select(*_OUTPUTS.selected).where(JobOutputsRow.job == slot("job_id")),
            _OUTPUTS,
        )
        self._given = Query(
            database,
            lambda: (
                JobOutputsRow.select(*_GIVEN.selected)
                .join(JobRow, on=JobRow.id == JobOutputsRow.job)
                .join(EdgeRow, on=EdgeRow.from_job == JobRow.id)
                .where(EdgeRow.to_job == slot("job_id"))
            ),
            _GIVEN,
        )
        self._summaries = Query(
            database,
            lambda: (
                JobSummaryRow.select(*_SUMMARY.selected)
                .join(JobRow, on=JobRow.id == JobSummaryRow.job)
                .where(JobSummaryRow.build == slot("build_id"), JobSummaryRow.job > slot("after"))
                .order_by(JobSummaryRow.job)
                .limit(slot("limit"))
            ),
            _SUMMARY,
        )
        self._annotations = Query(
            database,
            lambda: (
                AnnotationRow.select(*_ANNOTATION.selected)
                .join(JobRow, on=JobRow.id == AnnotationRow.job)
                .where(
                    AnnotationRow.build == slot("build_id"),
                    AnnotationRow.id > slot("after"),
                    _if_given("level", AnnotationRow.level),
                    _if_given("path", AnnotationRow.path),
                    _if_given("step", JobRow.step_key),
                )
                .order_by(AnnotationRow.id)
                .limit(slot("limit"))
            ),
            _ANNOTATION,
        )
        self._counts = Query(
            database,
            lambda: (
                AnnotationRow.select(AnnotationRow.level, peewee.fn.COUNT(AnnotationRow.id))
                .where(AnnotationRow.build == slot("build_id"))
                .group_by(AnnotationRow.level)
            ),
            lambda row: (str(row[0]), int(row[1])),
        )
        self._insert_outputs = Write(database, lambda: insert_into(JobOutputsRow, "expired").on_conflict_replace())
        self._insert_summary = Write(database, lambda: insert_into(JobSummaryRow).on_conflict_replace())
        self._insert_annotation = Write(database, lambda: insert_into(AnnotationRow))
        self._any = Query(database, _any_of_job, first)
        self._delete = {row: Write(database, partial(_of_job, row)) for row in _ROWS}
        self._copy = [Write(database, partial(_copied, row)) for row in _ROWS]
        disks = SnapshotRow.select(SnapshotRow.name).where(SnapshotRow.job == slot("job_id"))
        self._uncache = Write(database, lambda: CacheRow.delete().where(CacheRow.snapshot.in_(disks)))

    def outputs(self, job_id: int) -> JobOutputs | None:
        """Return the outputs of a job; None if its last command gave none."""
        return self._outputs.one(job_id=job_id)

    def outputs_given_to(self, job_id: int) -> list[GivenOutputs]:
        """Return the outputs of the jobs that a job needs, in the order of the build."""
        return sorted(self._given.all(job_id=job_id), key=lambda given: given.position)

    def summaries(self, build_id: int, limit: int, after: int | None = None) -> Page[ShownSummary]:
        """Return the summaries of a build past the key ``after``, in the order of its jobs."""
        return self._summaries.page(limit, lambda summary: summary.id, build_id=build_id, after=after or 0)

    def annotations(
        self,
        build_id: int,
        limit: int,
        after: int | None = None,
        *,
        level: str | None = None,
        path: str | None = None,
        step: str | None = None,
    ) -> Page[ShownAnnotation]:
        """Return the annotations of a build past the key ``after``, in the order in which its jobs ended."""
        return self._annotations.page(
            limit, lambda each: each.id, build_id=build_id, after=after or 0, level=level, path=path, step=step
        )

    def annotation_counts(self, build_id: int) -> dict[str, int]:
        """Return the number of a build's annotations of each level that it has."""
        return dict(self._counts.all(build_id=build_id))

    def store_outputs(self, outputs: JobOutputs) -> None:
        """Record the outputs of a job in place of earlier ones."""
        with self._database.write():
            self._insert_outputs.run(**_NEW_OUTPUTS(outputs))

    def store_summary(self, summary: JobSummary) -> None:
        """Record the summary of a job in place of an earlier one."""
        with self._database.write():
            self._insert_summary.run(**_NEW_SUMMARY(summary))

    def store_annotations(self, job_id: int, build_id: int, annotations: Sequence[Annotation]) -> None:
        """Record the annotations of a job in place of earlier ones."""
        with self._database.write():
            self._delete[AnnotationRow].run(job_id=job_id)
            self._insert_annotation.run_many(
                {**_NEW_ANNOTATION(each), "job_id": job_id, "build_id": build_id} for each in annotations
            )

    def discard(self, job_id: int) -> None:
        """Remove what a job has told whose attempt does not count, or that runs again.

        Its disks are in the cache no more: who got one would lack it.
        """
        if self._any.one(job_id=job_id) is not None:
            with self._database.write():
                for delete in self._delete.values():
                    delete.run(job_id=job_id)
                self._uncache.run(job_id=job_id)

    def inherit(self, from_job_id: int, to_job_id: int, build_id: int) -> None:
        """Give a job what another job has told, in place of its own. Part of the caller's transaction."""
        with self._database.write():
            for delete in self._delete.values():
                delete.run(job_id=to_job_id)
            for copy in self._copy:
                copy.run(from_job_id=from_job_id, job_id=to_job_id, build_id=build_id)


def _if_given(name: str, column: peewee.Field[str]) -> peewee.Expression:
    """Return the condition that a column has the value of a slot, if that has one."""
    return slot(name).is_null() | (column == slot(name))


def _any_of_job() -> peewee.Query:
    """Return the query of a job's id, if it has told anything."""
    outputs, summary, annotation = (peewee.fn.EXISTS(row.select(row.job).where(row.job == JobRow.id)) for row in _ROWS)
    return JobRow.select(JobRow.id).where(JobRow.id == slot("job_id"), outputs | summary | annotation)


def _of_job(row: type[Row]) -> peewee.Delete:
    """Return a DELETE of one job's rows."""
    return row.delete().where(row.job == slot("job_id"))


def _copied(row: type[Row]) -> peewee.Insert:
    """Return an INSERT of one job's rows for another job.

    They have not expired, and are of no line in its log.
    """
    given = {
        "job_id": slot("job_id"),
        "build_id": slot("build_id"),
        "expired": peewee.SQL("0"),
        "log_line": peewee.SQL("NULL"),
    }
    fields = [field for field in row._meta.sorted_fields if not isinstance(field, peewee.AutoField)]  # noqa: SLF001 - where peewee documents a model's fields
    values = row.select(*(given.get(field.column_name, field) for field in fields)).where(
        row.job == slot("from_job_id")
    )
    return row.insert_from(values, fields)
