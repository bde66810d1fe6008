"""Secrets of builds."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, PipelineRow
from storage.models.row import Row
from storage.records import Secret

__all__ = ["SecretRow"]


class SecretRow(Row, table="secrets", record=Secret):
    """A secret of an organization, or of one of its pipelines; ``value`` is sealed."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    pipeline = peewee.ForeignKeyField(PipelineRow, null=True)
    value = peewee.BlobField()
