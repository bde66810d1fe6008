"""Schedules of pipelines."""

from __future__ import annotations

import peewee

from storage.models.accounts import PipelineRow
from storage.models.row import Row
from storage.records import Schedule

__all__ = ["ScheduleRow"]


class ScheduleRow(Row, table="schedules", record=Schedule):
    """A schedule; ``next_at`` is null while it is disabled."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
