"""Searches for the commits that broke default branches."""

from __future__ import annotations

import peewee

from storage.models.builds import BuildRow
from storage.models.pipelines import PipelineRow
from storage.models.row import Row
from storage.records.culprits import CulpritSearch


class CulpritSearchRow(Row, table="culprit_searches", record=CulpritSearch):
    """A search for the commit that broke a job of a default branch."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
    build = peewee.ForeignKeyField(BuildRow)
