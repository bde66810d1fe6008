"""Pipelines that are not built for a commit, and the report of that to the commit's host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.database.clock import DAY, SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models.builds import BuildRow
from storage.models.source_hosts import BuildOriginRow, SkippedPipelineRow
from storage.records.source_hosts import SkippedPipeline

if TYPE_CHECKING:
    from storage.database.connection import Database

_SKIPPED = Columns.of(SkippedPipeline, SkippedPipelineRow)
_KEPT = 7 * DAY


class SkippedPipelines:
    """Pipelines that are not built for a commit, each told to its host once. Safe in any thread.

    A build of the commit says more, so nothing is told beside it. What was told is forgotten after a week.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = SkippedPipelineRow.id == slot("id")
        self._due = Query(
            database,
            lambda: (
                SkippedPipelineRow.select(*_SKIPPED.selected)
                .where(SkippedPipelineRow.report_at <= slot("now"))
                .order_by(SkippedPipelineRow.report_at)
                .limit(slot("limit"))
            ),
            _SKIPPED,
        )
        self._built = Query(
            database,
            lambda: (
                BuildOriginRow.select(BuildOriginRow.build)
                .join(BuildRow)
                .where(
                    peewee.Expression(BuildOriginRow.repository, "+ 0 =", slot("repository_id")),
                    BuildRow.pipeline == slot("pipeline_id"),
                    BuildRow.commit == slot("commit_sha"),
                )
                .limit(1)
            ),
            first,
        )
        self._of_commit = Query(
            database,
            lambda: SkippedPipelineRow.select(*_SKIPPED.selected).where(
                SkippedPipelineRow.repository == slot("repository_id"),
                SkippedPipelineRow.commit == slot("commit_sha"),
            ),
            _SKIPPED,
        )
        self._insert = Write(
            database, lambda: insert_into(SkippedPipelineRow, "report_failures", "report_error").on_conflict("IGNORE")
        )
        self._forget = Write(
            database,
            lambda: SkippedPipelineRow.delete().where(
                SkippedPipelineRow.report_at.is_null(), SkippedPipelineRow.recorded_at <= slot("before")
            ),
        )
        self._reported = Write(
            database,
            lambda: SkippedPipelineRow.update(
                {SkippedPipelineRow.report_at: None, SkippedPipelineRow.report_error: None}
            ).where(this),
        )
        self._failed = Write(
            database,
            lambda: SkippedPipelineRow.update(
                {
                    SkippedPipelineRow.report_at: slot("next"),
                    SkippedPipelineRow.report_failures: SkippedPipelineRow.report_failures + 1,
                    SkippedPipelineRow.report_error: slot("why"),
                }
            ).where(this),
        )

    def record(self, repository_id: int, pipeline_id: int, commit: str, reason: str) -> None:
        """Note that a pipeline is not built for a commit of a repository; once is enough."""
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=now - _KEPT)
            self._insert.run(
                repository_id=repository_id,
                pipeline_id=pipeline_id,
                commit_sha=commit,
                reason=reason,
                recorded_at=now,
                report_at=now,
            )

    def due(self, limit: int) -> list[SkippedPipeline]:
        """Return the skips that hosts have to hear of now, the one that waits longest first."""
        return self._due.all(now=self._database.now(), limit=limit)

    def of_commit(self, repository_id: int, commit: str) -> list[SkippedPipeline]:
        """Return the pipelines that are not built for a commit, for one event at least."""
        return self._of_commit.all(repository_id=repository_id, commit_sha=commit)

    def is_built(self, skipped: SkippedPipeline) -> bool:
        """Tell whether the commit has a build of the pipeline after all, for another event."""
        found = self._built.one(
            repository_id=skipped.repository_id, pipeline_id=skipped.pipeline_id, commit_sha=skipped.commit
        )
        return found is not None

    def reported(self, skipped: SkippedPipeline) -> None:
        """Note that nothing is left to tell."""
        with self._database.write():
            self._reported.run(id=skipped.id)

    def report_failed(self, skipped: SkippedPipeline, why: str, pause: float | None) -> None:
        """Note why a report failed, and the seconds until the next; None if it is given up."""
        with self._database.write():
            later = None if pause is None else self._database.now() + int(pause * SECOND)
            self._failed.run(id=skipped.id, next=later, why=why)
