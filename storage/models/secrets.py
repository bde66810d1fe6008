# ruff: noqa: D106 - a model's Meta only names its table
"""Secrets of builds."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, PipelineRow
from storage.models.fields import InstantField

__all__ = ["SecretRow"]


class SecretRow(peewee.Model):
    """A secret of an organization, or of one of its pipelines; ``value`` is sealed."""

    id = peewee.AutoField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    pipeline = peewee.ForeignKeyField(PipelineRow, null=True)
    name = peewee.TextField()
    value = peewee.BlobField()
    created_at = InstantField()
    updated_at = InstantField()

    class Meta:
        table_name = "secrets"
