"""Pipelines of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.lookup import find_organization, find_pipeline
from ci_daemon.command.support.session import Failure
from ci_daemon.remote.views import PipelineView
from storage import NewPipeline, PipelineBusy, SlugTaken, repo_name, slugify

if TYPE_CHECKING:
    from ci_daemon.command.support.names import PipelineName
    from storage import Pipeline, PipelineChanges, Storage

__all__ = ["BoxPipelines"]

_PAGE_SIZE = 100


class BoxPipelines:
    """Pipelines in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def all(self, org: str) -> list[PipelineView]:
        """Return the pipelines of an organization, oldest first."""
        pipelines, organization = self._storage.pipelines, find_organization(self._storage, org)
        page = pipelines.page(organization.id, _PAGE_SIZE, None)
        found = list(page.rows)
        while page.next_key is not None:
            page = pipelines.page(organization.id, _PAGE_SIZE, page.next_key)
            found += page.rows
        return [PipelineView.of(each) for each in found]

    def get(self, name: PipelineName) -> PipelineView:
        """Return a pipeline."""
        return PipelineView.of(self._find(name))

    def create(self, org: str, name: str, repository: str, default_branch: str) -> PipelineView:
        """Create a pipeline, whose slug is made from its name."""
        slug = slugify(name)
        if not slug:
            raise Failure(f'"{name}" has no letter a-z and no digit: choose another name')
        new = NewPipeline(slug, name, repository, default_branch, repo_name=repo_name(repository))
        try:
            return PipelineView.of(self._storage.pipelines.create(find_organization(self._storage, org).id, new))
        except SlugTaken:
            raise Failure(f"{org} has a pipeline {slug} already: choose another name") from None

    def edit(self, name: PipelineName, changes: PipelineChanges) -> PipelineView:
        """Change a pipeline, and return it as it is now."""
        return PipelineView.of(self._storage.pipelines.update(self._find(name).id, **changes))

    def delete(self, name: PipelineName) -> None:
        """Delete a pipeline with its builds."""
        try:
            self._storage.pipelines.delete(self._find(name).id)
        except PipelineBusy as error:
            raise Failure(f"{name} cannot be deleted: {error}") from None

    def _find(self, name: PipelineName) -> Pipeline:
        return find_pipeline(self._storage, name.org, name.pipeline)
