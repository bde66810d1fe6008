# ruff: noqa: D106 - a model's Meta only names its table
"""Disks that builds keep for later ones."""

from __future__ import annotations

import peewee

from storage.models.accounts import PipelineRow
from storage.models.fields import InstantField

__all__ = ["CacheRow"]


class CacheRow(peewee.Model):
    """A job's disk: the snapshot's name under the pipeline, image and key by which later builds find it."""

    id = peewee.AutoField()
    pipeline = peewee.ForeignKeyField(PipelineRow)
    image = peewee.TextField()
    key = peewee.TextField()
    snapshot = peewee.TextField()
    created_at = InstantField()
    last_used_at = InstantField()
    hits = peewee.IntegerField()

    class Meta:
        table_name = "cache_entries"
