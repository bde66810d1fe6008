"""Tests in quarantine, and failures that they excused."""

from __future__ import annotations

import peewee

from storage.models.builds import BuildRow, JobRow
from storage.models.pipelines import PipelineRow
from storage.models.row import Row
from storage.records.quarantine import ExcusedTest, QuarantinedTest


class QuarantinedTestRow(Row, table="quarantined_tests", record=QuarantinedTest):
    """A test that is, or was, in quarantine."""

    pipeline = peewee.ForeignKeyField(PipelineRow)


class ExcusedTestRow(Row, table="excused_tests", record=ExcusedTest):
    """A test of a job that failed in quarantine."""

    job = peewee.ForeignKeyField(JobRow)
    build = peewee.ForeignKeyField(BuildRow)
