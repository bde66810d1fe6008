"""Pipelines as their repositories declare them.

See wire-decisions.md, "Builds by repository".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import peewee

from storage.accounts.names import slug_candidates, slugify
from storage.database.statements import Columns, Query, Slots, Write, insert_into, slot, written
from storage.errors import SlugTaken
from storage.models.leases import DeclarationRow
from storage.models.pipelines import PipelineRow, PipelineTriggerRow, ScheduleRow
from storage.models.source_hosts import RepositoryRow
from storage.pipelines.clone_urls import clone_place
from storage.records.pipelines import Declaration, DeclaringRepository, NewPipeline, Visibility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.database.connection import Database
    from storage.pipelines.pipelines import Pipelines
    from storage.records.pipelines import Pipeline

_DECLARATION = Columns.of(Declaration, DeclarationRow)
_DECLARED: Slots[Declaration] = Slots(Declaration, DeclarationRow)


class _Candidate(NamedTuple):
    """A pipeline whose repository has a certain name, and its own ``repository``."""

    pipeline_id: int
    source_slug: str
    repository: str


class Declarations:
    """Declarations of pipelines in the files of their repository. Safe in any thread.

    A declared pipeline is created, and archived when its repository drops the declaration. An archived pipeline keeps
    its builds, is in no list and accepts no builds.
    """

    def __init__(self, database: Database, pipelines: Pipelines) -> None:
        self._database = database
        self._pipelines = pipelines
        this = DeclarationRow.pipeline == slot("pipeline_id")
        self._get = Query(database, lambda: DeclarationRow.select(*_DECLARATION.selected).where(this), _DECLARATION)
        self._put = Write(database, lambda: insert_into(DeclarationRow, "archived_at").on_conflict("REPLACE"))
        self._archive = Write(
            database,
            lambda: DeclarationRow.update(
                {DeclarationRow.archived_at: peewee.fn.COALESCE(DeclarationRow.archived_at, slot("now"))}
            ).where(this),
        )
        of_pipeline, declared = (
            ScheduleRow.pipeline == slot("pipeline_id"),
            ScheduleRow.declared_in.is_null(is_null=False),
        )
        self._unschedule = Write(database, lambda: ScheduleRow.delete().where(of_pipeline, declared))
        self._untrigger = Write(
            database, lambda: PipelineTriggerRow.delete().where(PipelineTriggerRow.pipeline == slot("pipeline_id"))
        )
        of_another = RepositoryRow.select(RepositoryRow.id).where(
            RepositoryRow.organization == PipelineRow.organization,
            RepositoryRow.url == PipelineRow.repository,
            RepositoryRow.url != slot("url"),
        )
        self._candidates = Query(
            database,
            lambda: (
                PipelineRow.select(PipelineRow.id, PipelineRow.source_slug, PipelineRow.repository)
                .where(
                    PipelineRow.organization == slot("organization_id"),
                    PipelineRow.repo_name == slot("repo_name"),
                    PipelineRow.source_slug.is_null(is_null=False),
                    PipelineRow.deleted_at.is_null(),
                    ~peewee.fn.EXISTS(of_another),
                )
                .order_by(PipelineRow.id)
            ),
            lambda row: _Candidate(int(row[0]), str(row[1]), str(row[2])),
        )
        self._address = Query(
            database,
            lambda: (
                PipelineRow.select(PipelineRow.repository)
                .where(
                    PipelineRow.organization == slot("organization_id"),
                    PipelineRow.repo_name == slot("repo_name"),
                    PipelineRow.source_slug.is_null(is_null=False),
                    PipelineRow.deleted_at.is_null(),
                )
                .order_by(PipelineRow.id)
                .limit(1)
            ),
            lambda row: str(row[0]),
        )

    def get(self, pipeline_id: int) -> Declaration | None:
        """Return a pipeline's current or last declaration; None if it was never declared."""
        return self._get.one(pipeline_id=pipeline_id)

    def of_repository(self, repository: DeclaringRepository) -> list[tuple[Pipeline, Declaration]]:
        """Return the pipelines that a repository declares, without archived ones, and how it does."""
        found = []
        for each in self._pipelines_of(repository).values():
            declaration, pipeline = self.get(each.pipeline_id), self._pipelines.by_id(each.pipeline_id)
            if declaration is not None and declaration.archived_at is None and pipeline is not None:
                found.append((pipeline, declaration))
        return found

    def named(self, organization_id: int, repo_name: str) -> DeclaringRepository:
        """Return the repository with a name; of several, the one of the oldest pipeline."""
        address = self._address.one(organization_id=organization_id, repo_name=repo_name)
        return DeclaringRepository(organization_id, repo_name, address or repo_name)

    def claim(self, repository: DeclaringRepository, source_slug: str) -> Pipeline | None:
        """Return a connected repository's pipeline, and let no other have it; None if it is archived."""
        with self._database.write():
            found = self._pipelines_of(repository).get(source_slug)
            if found is None or self.archived(found.pipeline_id):
                return None
            if found.repository != repository.address:
                self._pipelines.update(found.pipeline_id, repository=repository.address)
            return self._pipelines.by_id(found.pipeline_id)

    def archived(self, pipeline_id: int) -> bool:
        """Tell whether a pipeline's repository has dropped it."""
        declaration = self.get(pipeline_id)
        return declaration is not None and declaration.archived_at is not None

    def register(
        self, repository: DeclaringRepository, source_slug: str, default_branch: str, declared: Declaration
    ) -> Pipeline:
        """Return the pipeline that a repository declares, created or restored if necessary.

        A new one has the slug ``<owner>-<repo>-<source_slug>``, with a number if it is taken, so that two repositories
        never share a pipeline, and the declared name.
        """
        with self._database.write():
            found = self._pipelines_of(repository).get(source_slug)
            if found is None:
                pipeline_id = self._create(repository, source_slug, default_branch, declared).id
            else:
                pipeline_id = found.pipeline_id
            self._declare(pipeline_id, declared)
            return written(self._pipelines.by_id(pipeline_id))

    def follow(self, repository: DeclaringRepository, declared: Mapping[str, Declaration]) -> None:
        """Apply a repository's declarations, by source slug, to its existing pipelines.

        Those without a declaration are archived, and lose what their file alone declared: its schedules and pipeline
        triggers. A later declaration restores them.
        """
        with self._database.write():
            for source_slug, each in self._pipelines_of(repository).items():
                declaration = declared.get(source_slug)
                if declaration is not None:
                    self._declare(each.pipeline_id, declaration)
                else:
                    self._archive.run(pipeline_id=each.pipeline_id, now=self._database.now())
                    self._unschedule.run(pipeline_id=each.pipeline_id)
                    self._untrigger.run(pipeline_id=each.pipeline_id)

    def _pipelines_of(self, repository: DeclaringRepository) -> dict[str, _Candidate]:
        """Return a repository's pipelines by source slug.

        These are the ones of its clone URL, then those whose clone URL nobody knows, as of a working tree; the oldest
        first. The name is not enough: that of ``group/sub/repo`` is ``sub/repo``.
        """
        candidates = self._candidates.all(
            organization_id=repository.organization_id, repo_name=repository.repo_name, url=repository.address
        )
        place = clone_place(repository.address)
        own = [each for each in candidates if place is not None and clone_place(each.repository) == place]
        of_none = [each for each in candidates if clone_place(each.repository) is None]
        found: dict[str, _Candidate] = {}
        for each in own + of_none:
            found.setdefault(each.source_slug, each)
        return found

    def _declare(self, pipeline_id: int, declared: Declaration) -> None:
        """Store a declaration and apply its changes since the last one; other manual settings stay."""
        before = self.get(pipeline_id)
        if before is not None and before.name != declared.name:
            self._pipelines.update(pipeline_id, name=declared.name)
        if before is not None and before.allow_manual != declared.allow_manual:
            self._pipelines.update(pipeline_id, allow_manual=declared.allow_manual)
        self._put.run(**_DECLARED(declared) | {"pipeline_id": pipeline_id})

    def _create(
        self, repository: DeclaringRepository, source_slug: str, default_branch: str, declared: Declaration
    ) -> Pipeline:
        for slug in slug_candidates(slugify(f"{repository.repo_name}-{source_slug}") or "pipeline"):
            new = NewPipeline(
                slug,
                declared.name,
                repository=repository.address,
                default_branch=default_branch,
                repo_name=repository.repo_name,
                visibility=Visibility.PRIVATE,
                allow_manual=declared.allow_manual,
                source_slug=source_slug,
            )
            try:
                return self._pipelines.create(repository.organization_id, new)
            except SlugTaken:
                continue
        raise AssertionError("slugs do not end")
