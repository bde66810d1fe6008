"""Pipelines as their repositories declare them.

See wire-decisions.md, "Pipelines, builds, jobs", on builds by repository identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.accounts.slugs import slug_candidates, slugify
from storage.database.statements import Columns, Query, Slots, Write, insert_into, slot, written
from storage.errors import SlugTaken
from storage.models import DeclarationRow, PipelineRow
from storage.records import Declaration, NewPipeline, Visibility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.builds.pipelines import Pipelines
    from storage.database.connection import Database
    from storage.records import Pipeline

__all__ = ["Declarations"]

_DECLARATION = Columns.of(Declaration, DeclarationRow)
_DECLARED: Slots[Declaration] = Slots(Declaration, DeclarationRow)


class Declarations:
    """Declarations of pipelines in the files of their repository. Safe in any thread.

    A declared pipeline is created, and archived when its repository drops the declaration. An archived pipeline keeps
    its builds, is in no list and accepts no builds.
    """

    def __init__(self, database: Database, pipelines: Pipelines) -> None:
        self._database = database
        self._pipelines = pipelines
        this = DeclarationRow.pipeline == slot("pipeline_id")
        self._get = Query(database, DeclarationRow.select(*_DECLARATION.selected).where(this), _DECLARATION)
        self._put = Write(database, insert_into(DeclarationRow, "archived_at").on_conflict("REPLACE"))
        self._archive = Write(
            database,
            DeclarationRow.update(
                {DeclarationRow.archived_at: peewee.fn.COALESCE(DeclarationRow.archived_at, slot("now"))}
            ).where(this),
        )
        self._of_repository = Query(
            database,
            PipelineRow.select(PipelineRow.id, PipelineRow.source_slug)
            .where(
                PipelineRow.organization == slot("organization_id"),
                PipelineRow.repo_name == slot("repo_name"),
                PipelineRow.source_slug.is_null(is_null=False),
                PipelineRow.deleted_at.is_null(),
            )
            .order_by(PipelineRow.id),
            lambda row: (int(row[0]), str(row[1])),
        )

    def get(self, pipeline_id: int) -> Declaration | None:
        """Return a pipeline's current or last declaration; None if it was never declared."""
        return self._get.one(pipeline_id=pipeline_id)

    def of_repository(self, organization_id: int, repo_name: str) -> list[tuple[Pipeline, Declaration]]:
        """Return the pipelines that a repository declares, without archived ones, and how it does."""
        found = []
        for pipeline_id, _ in self._of_repository.all(organization_id=organization_id, repo_name=repo_name):
            declaration, pipeline = self.get(pipeline_id), self._pipelines.by_id(pipeline_id)
            if declaration is not None and declaration.archived_at is None and pipeline is not None:
                found.append((pipeline, declaration))
        return found

    def archived(self, pipeline_id: int) -> bool:
        """Tell whether a pipeline's repository has dropped it."""
        declaration = self.get(pipeline_id)
        return declaration is not None and declaration.archived_at is not None

    def register(
        self, organization_id: int, repo_name: str, source_slug: str, default_branch: str, declared: Declaration
    ) -> Pipeline:
        """Return the pipeline that a repository declares, created or restored if necessary.

        A new one has the slug ``<owner>-<repo>-<source_slug>``, so that two repositories never share a pipeline, and
        the declared name.
        """
        with self._database.write():
            known = self._of_repository.all(organization_id=organization_id, repo_name=repo_name)
            pipeline_id = next((row_id for row_id, slug in known if slug == source_slug), None)
            if pipeline_id is None:
                pipeline_id = self._create(organization_id, repo_name, source_slug, default_branch, declared).id
            self._declare(pipeline_id, declared)
            return written(self._pipelines.by_id(pipeline_id))

    def follow(self, organization_id: int, repo_name: str, declared: Mapping[str, Declaration]) -> None:
        """Apply a repository's declarations, by source slug, to its existing pipelines.

        Those without a declaration are archived; a later declaration restores them.
        """
        with self._database.write():
            for pipeline_id, source_slug in self._of_repository.all(
                organization_id=organization_id, repo_name=repo_name
            ):
                declaration = declared.get(source_slug)
                if declaration is not None:
                    self._declare(pipeline_id, declaration)
                else:
                    self._archive.run(pipeline_id=pipeline_id, now=self._database.now())

    def _declare(self, pipeline_id: int, declared: Declaration) -> None:
        """Store a declaration and apply its changes since the last one; other manual settings stay."""
        before = self.get(pipeline_id)
        if before is not None and before.name != declared.name:
            self._pipelines.update(pipeline_id, name=declared.name)
        if before is not None and before.allow_manual != declared.allow_manual:
            self._pipelines.update(pipeline_id, allow_manual=declared.allow_manual)
        self._put.run(**_DECLARED(declared) | {"pipeline_id": pipeline_id})

    def _create(
        self, organization_id: int, repo_name: str, source_slug: str, default_branch: str, declared: Declaration
    ) -> Pipeline:
        for slug in slug_candidates(slugify(f"{repo_name}-{source_slug}") or "pipeline"):
            new = NewPipeline(
                slug,
                declared.name,
                repository=repo_name,
                default_branch=default_branch,
                repo_name=repo_name,
                visibility=Visibility.PRIVATE,
                allow_manual=declared.allow_manual,
                source_slug=source_slug,
            )
            try:
                return self._pipelines.create(organization_id, new)
            except SlugTaken:
                continue
        raise AssertionError("slugs do not end")
