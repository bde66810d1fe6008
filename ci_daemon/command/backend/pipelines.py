"""Pipelines, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ci_daemon.command.support.names import PipelineName
    from ci_daemon.remote.views import PipelineView
    from storage import PipelineChanges

__all__ = ["Pipelines"]


class Pipelines(Protocol):
    """Pipelines of organizations. All methods raise Failure, RequestFailed and StorageError."""

    def all(self, org: str) -> list[PipelineView]:
        """Return the pipelines of an organization, oldest first."""
        ...

    def get(self, name: PipelineName) -> PipelineView:
        """Return a pipeline."""
        ...

    def create(self, org: str, name: str, repository: str, default_branch: str) -> PipelineView:
        """Create a pipeline, whose slug is made from its name."""
        ...

    def edit(self, name: PipelineName, changes: PipelineChanges) -> PipelineView:
        """Change a pipeline, and return it as it is now."""
        ...

    def delete(self, name: PipelineName) -> None:
        """Delete a pipeline with its builds."""
        ...
