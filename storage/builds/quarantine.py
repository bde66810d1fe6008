"""Tests in quarantine, as rows (engine.md, "Quarantine")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot, written
from storage.errors import TestQuarantined, TooManyQuarantined
from storage.models.builds import JobRow
from storage.models.failures import ExcusedTestRow, QuarantinedTestRow
from storage.records.quarantine import ExcusedTest, NewQuarantine, QuarantinedTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database

_TEST = Columns.of(QuarantinedTest, QuarantinedTestRow)
_EXCUSED = Columns.of(ExcusedTest, ExcusedTestRow)
_NEW_EXCUSED: Slots[ExcusedTest] = Slots(ExcusedTest, ExcusedTestRow)
_DAY = 24 * 3600 * SECOND
_MOST = 200


class Quarantine:
    """The tests in quarantine of all pipelines, and the failures that this excused. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        tests, not_ended = QuarantinedTestRow.select(*_TEST.selected), QuarantinedTestRow.ended_at.is_null()
        of_pipeline = QuarantinedTestRow.pipeline == slot("pipeline_id")
        self._get = Query(database, lambda: tests.where(QuarantinedTestRow.id == slot("id")), _TEST)
        self._by_uuid = Query(
            database, lambda: tests.where(of_pipeline, QuarantinedTestRow.uuid == slot("uuid")), _TEST
        )
        self._in_force = Query(
            database,
            lambda: tests.where(of_pipeline, not_ended, QuarantinedTestRow.expires_at > slot("now")).order_by(
                QuarantinedTestRow.id
            ),
            _TEST,
        )
        self._of_pipeline = Query(
            database,
            lambda: tests.where(of_pipeline).order_by(QuarantinedTestRow.id.desc()).limit(slot("limit")),
            _TEST,
        )
        of_build = ExcusedTestRow.build == slot("build_id")
        self._excused = Query(
            database,
            lambda: (
                ExcusedTestRow.select(*_EXCUSED.selected)
                .join(JobRow, on=JobRow.id == ExcusedTestRow.job)
                .where(of_build, JobRow.soft_failed == 1)
                .order_by(ExcusedTestRow.id)
            ),
            _EXCUSED,
        )
        self._count = Query(
            database,
            lambda: (
                ExcusedTestRow.select(peewee.fn.COUNT(ExcusedTestRow.id))
                .join(JobRow, on=JobRow.id == ExcusedTestRow.job)
                .where(of_build, JobRow.soft_failed == 1)
            ),
            first,
        )
        self._insert = Write(database, lambda: insert_into(QuarantinedTestRow, "ended_at", "ended_by"))
        self._end = Write(
            database,
            lambda: QuarantinedTestRow.update(ended_at=slot("now"), ended_by=slot("by")).where(
                QuarantinedTestRow.id == slot("id"), not_ended
            ),
        )
        self._insert_excused = Write(database, lambda: insert_into(ExcusedTestRow))
        self._forget = Write(database, lambda: ExcusedTestRow.delete().where(ExcusedTestRow.job == slot("job_id")))

    def add(self, pipeline_id: int, new: NewQuarantine, by: str) -> QuarantinedTest:
        """Put a test in quarantine. Raises TestQuarantined and TooManyQuarantined."""
        with self._database.write():
            known = self.in_force(pipeline_id)
            if len(known) >= _MOST:
                raise TooManyQuarantined(f"{_MOST} tests of the pipeline are in quarantine: mend some first")
            test = new.test
            if any((each.suite, each.name, each.step_key) == (test.suite, test.name, new.step_key) for each in known):
                raise TestQuarantined(f"{test.name} is in quarantine already: end that to begin another")
            now = self._database.now()
            test_id = self._insert.insert(
                uuid=str(uuid4()),
                pipeline_id=pipeline_id,
                suite=test.suite,
                name=test.name,
                step_key=new.step_key,
                owner=new.owner,
                reason=new.reason,
                created_by=by,
                created_at=now,
                expires_at=now + new.days * _DAY,
            )
            return written(self._get.one(id=test_id))

    def by_uuid(self, pipeline_id: int, uuid: str) -> QuarantinedTest | None:
        """Return a test that is, or was, in quarantine in a pipeline."""
        return self._by_uuid.one(pipeline_id=pipeline_id, uuid=uuid)

    def in_force(self, pipeline_id: int) -> list[QuarantinedTest]:
        """Return the tests of a pipeline that are in quarantine now."""
        return self._in_force.all(pipeline_id=pipeline_id, now=self._database.now())

    def of_pipeline(self, pipeline_id: int, limit: int) -> list[QuarantinedTest]:
        """Return the tests of a pipeline that are, or were, in quarantine, newest first."""
        return self._of_pipeline.all(pipeline_id=pipeline_id, limit=limit)

    def end(self, test: QuarantinedTest, by: str) -> None:
        """End a quarantine; one that has ended stays as it is."""
        with self._database.write():
            self._end.run(id=test.id, by=by, now=self._database.now())

    def excuse(self, job_id: int, tests: Sequence[ExcusedTest]) -> None:
        """Note the failures of a job's last attempt that do not count, in the place of earlier ones."""
        with self._database.write():
            self._forget.run(job_id=job_id)
            for each in tests:
                self._insert_excused.run(**_NEW_EXCUSED(each))

    def excused(self, build_id: int) -> list[ExcusedTest]:
        """Return the failures of a build that do not count."""
        return self._excused.all(build_id=build_id)

    def count_excused(self, build_id: int) -> int:
        """Count the failures of a build that do not count."""
        return self._count.one(build_id=build_id) or 0
