"""Pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.errors import SlugTaken
from storage.models import BuildRow, OrganizationRow, PipelineRow
from storage.records import NewPipeline, Page, Pipeline
from storage.statements import Columns, Command, Query, first, insert_into, paged, slot, written

if TYPE_CHECKING:
    from storage.database import Database

__all__ = ["Pipelines"]

_PIPELINE = Columns(
    Pipeline,
    PipelineRow.id,
    PipelineRow.uuid,
    PipelineRow.organization,
    PipelineRow.slug,
    PipelineRow.name,
    PipelineRow.repository,
    PipelineRow.default_branch,
    PipelineRow.visibility,
    PipelineRow.allow_manual,
    PipelineRow.description,
    PipelineRow.repo_name,
    PipelineRow.source_slug,
    PipelineRow.fail_fast,
    PipelineRow.created_at,
)


class Pipelines:
    """The CI definitions of organizations. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        pipelines = PipelineRow.select(*_PIPELINE.selected)
        of_organization = PipelineRow.organization == slot("organization_id")
        self._by_id = Query(database, pipelines.where(PipelineRow.id == slot("id")), _PIPELINE)
        self._by_slug = Query(database, pipelines.where(of_organization, PipelineRow.slug == slot("slug")), _PIPELINE)
        self._page = Query(
            database,
            pipelines.where(of_organization, PipelineRow.id > slot("after"))
            .order_by(PipelineRow.id)
            .limit(slot("limit")),
            _PIPELINE,
        )
        self._build_count = Query(
            database,
            BuildRow.select(peewee.fn.COUNT(peewee.SQL("*"))).where(BuildRow.pipeline == slot("pipeline_id")),
            first,
        )
        self._fails_fast = Query(
            database,
            PipelineRow.select(PipelineRow.fail_fast | OrganizationRow.fail_fast)
            .join(OrganizationRow)
            .where(PipelineRow.id == slot("id")),
            first,
        )
        self._set_fail_fast = Command(
            database,
            PipelineRow.update({PipelineRow.fail_fast: slot("fail_fast")}).where(PipelineRow.id == slot("id")),
        )
        self._insert = Command(database, insert_into(PipelineRow, "source_slug", "last_number"))

    def create(self, organization_id: int, new: NewPipeline) -> Pipeline:
        """Add a pipeline. Raises SlugTaken."""
        with self._database.write():
            if self.by_slug(organization_id, new.slug) is not None:
                raise SlugTaken(f'the organization has a pipeline "{new.slug}" already: choose another name')
            pipeline_id = self._insert.insert(
                uuid=str(uuid4()),
                organization_id=organization_id,
                slug=new.slug,
                name=new.name,
                repository=new.repository,
                default_branch=new.default_branch,
                visibility=new.visibility,
                allow_manual=new.allow_manual,
                description=new.description,
                repo_name=new.repo_name,
                fail_fast=new.fail_fast,
                created_at=self._database.now(),
            )
            return written(self._by_id.one(id=pipeline_id))

    def set_fail_fast(self, pipeline_id: int, *, fail_fast: bool) -> None:
        """Say whether the first failure ends a pipeline's builds, those that run included."""
        with self._database.write():
            self._set_fail_fast.run(id=pipeline_id, fail_fast=fail_fast)

    def fails_fast(self, pipeline_id: int) -> bool:
        """Tell whether the first failure ends a pipeline's builds, by its own setting or its organization's."""
        return bool(self._fails_fast.one(id=pipeline_id))

    def by_id(self, pipeline_id: int) -> Pipeline | None:
        """Return a pipeline by row id."""
        return self._by_id.one(id=pipeline_id)

    def by_slug(self, organization_id: int, slug: str) -> Pipeline | None:
        """Return an organization's pipeline by slug."""
        return self._by_slug.one(organization_id=organization_id, slug=slug)

    def page(self, organization_id: int, limit: int, after: int | None) -> Page[Pipeline]:
        """Return an organization's pipelines, oldest first, those past the key ``after``."""
        rows = self._page.all(organization_id=organization_id, after=after or 0, limit=limit + 1)
        return paged(rows, limit, lambda pipeline: pipeline.id)

    def build_count(self, pipeline_id: int) -> int:
        """Return how many builds a pipeline has."""
        return self._build_count.one(pipeline_id=pipeline_id) or 0
