# ruff: noqa: D106 - a model's Meta only names its table
"""Builds that the service renders, and the results."""

from __future__ import annotations

import peewee

from storage.models.accounts import PipelineRow
from storage.models.builds import BuildRow
from storage.models.fields import FlagField, InstantField, ListField
from storage.models.leases import LeaseRow

__all__ = ["DeclarationRow", "RenderRow", "RenderedRow", "RunnerTokenRow"]


class RenderRow(peewee.Model):
    """The render of a build."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    source_url = peewee.TextField(null=True)
    lease = peewee.ForeignKeyField(LeaseRow, null=True)
    created_at = InstantField()
    finished_at = InstantField(null=True)
    rejected = FlagField()

    class Meta:
        table_name = "renders"


class RunnerTokenRow(peewee.Model):
    """A token with which a VM may fetch the source of one build, hashed."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    hash = peewee.BlobField()

    class Meta:
        table_name = "runner_tokens"


class DeclarationRow(peewee.Model):
    """The declaration of a pipeline in its repository's files."""

    pipeline = peewee.ForeignKeyField(PipelineRow, primary_key=True)
    name = peewee.TextField()
    allow_manual = FlagField()
    triggers = ListField()
    archived_at = InstantField(null=True)

    class Meta:
        table_name = "declarations"


class RenderedRow(peewee.Model):
    """The cached result of rendering an archive's pipeline files."""

    id = peewee.AutoField()
    name = peewee.BlobField()
    envelope = peewee.TextField()
    log = peewee.BlobField()
    expires_at = InstantField()

    class Meta:
        table_name = "rendered"
