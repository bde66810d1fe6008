"""The rows of builds with those of their pipeline and organization, and the record that they make."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from storage.database.statements import Columns
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow
from storage.models.pipelines import PipelineRow
from storage.records.builds import Build

if TYPE_CHECKING:
    import peewee

BUILD = Columns.of(
    Build,
    BuildRow,
    organization_id=PipelineRow.organization,
    organization_slug=OrganizationRow.slug,
    pipeline_slug=PipelineRow.slug,
    default_branch=PipelineRow.default_branch,
    planned=(BuildRow.pipeline_ir.is_null(is_null=False), bool),
)


def counts(builds: type[BuildRow] = BuildRow) -> peewee.Expression:
    """Return the condition of builds that say something about their branch and pipeline.

    Every summary (badges, feeds, notifications, figures, the build that a schedule repeats) takes these alone. A build
    that a request asked for and that was refused does not count: its row is there for the answer that names it. One of
    the service's own triggers without a valid plan counts, because nobody else hears of it. One that looks for a
    culprit runs one job of an earlier commit.
    """
    return (builds.refused == 0) & builds.culprit_search_id.is_null()


@cache
def existing_builds() -> peewee.ModelSelect[BuildRow]:
    """Select the builds of pipelines that are not deleted: one query, which others are made of."""
    builds = BuildRow.select(*BUILD.selected).join(PipelineRow).join(OrganizationRow)
    return builds.where(PipelineRow.deleted_at.is_null())
