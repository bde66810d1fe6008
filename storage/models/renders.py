"""Builds that the service renders, and the results."""

from __future__ import annotations

import peewee

from storage.models.builds import BuildRow
from storage.models.fields import InstantField
from storage.models.leases import LeaseRow
from storage.models.pipelines import PipelineRow
from storage.models.row import Row
from storage.records.builds import Render, Rendered
from storage.records.pipelines import Declaration


class RenderRow(Row, table="renders", record=Render, joined=("organization_id",)):
    """The render of a build."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    lease = peewee.ForeignKeyField(LeaseRow, null=True)
    created_at = InstantField()


class RunnerTokenRow(Row, table="runner_tokens"):
    """A token with which a VM may fetch the source of one build, hashed."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    hash = peewee.BlobField()


class DeclarationRow(Row, table="declarations", record=Declaration):
    """The declaration of a pipeline in its repository's files."""

    pipeline = peewee.ForeignKeyField(PipelineRow, primary_key=True)


class RenderedRow(Row, table="rendered", record=Rendered):
    """The cached result of rendering an archive's pipeline files."""

    name = peewee.BlobField()
    expires_at = InstantField()
