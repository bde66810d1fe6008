"""Disks that builds keep for later ones."""

from __future__ import annotations

import peewee

from storage.models.accounts import PipelineRow
from storage.models.row import Row
from storage.records import CacheEntry

__all__ = ["CacheRow"]

_JOINED = ("organization_slug", "pipeline_slug", "build_number", "job_name", "job_id", "bytes")


class CacheRow(Row, table="cache_entries", record=CacheEntry, joined=_JOINED):
    """A job's disk: the snapshot's name under the pipeline, image and key by which later builds find it."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
