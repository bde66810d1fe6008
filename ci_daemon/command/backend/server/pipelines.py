"""Pipelines of a server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_daemon.remote import operations

if TYPE_CHECKING:
    from ci_daemon.command.support.names import PipelineName
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.views import PipelineView
    from storage import PipelineChanges

__all__ = ["ServerPipelines"]


class ServerPipelines:
    """Pipelines by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, org: str) -> list[PipelineView]:
        """Return the pipelines of an organization, oldest first."""
        return list(self._connection.items(operations.LIST_PIPELINES, {"org": org}))

    def get(self, name: PipelineName) -> PipelineView:
        """Return a pipeline."""
        return self._connection.call(operations.GET_PIPELINE, asdict(name))

    def create(self, org: str, name: str, repository: str, default_branch: str) -> PipelineView:
        """Create a pipeline, whose slug is made from its name."""
        body = {"name": name, "repository": repository, "default_branch": default_branch}
        return self._connection.call(operations.CREATE_PIPELINE, {"org": org}, body=body)

    def edit(self, name: PipelineName, changes: PipelineChanges) -> PipelineView:
        """Change a pipeline, and return it as it is now."""
        return self._connection.call(operations.UPDATE_PIPELINE, asdict(name), body=dict(changes))

    def delete(self, name: PipelineName) -> None:
        """Delete a pipeline with its builds."""
        self._connection.call(operations.DELETE_PIPELINE, asdict(name))
