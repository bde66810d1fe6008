"""The nouns of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.backend.server.artifacts import ServerArtifacts
from ci_daemon.command.backend.server.builds import ServerBuilds
from ci_daemon.remote.connection import Connection

if TYPE_CHECKING:
    from ci_daemon.command.backend.artifacts import Artifacts
    from ci_daemon.command.backend.builds import Builds
    from ci_daemon.remote.destination import Destination

__all__ = ["ServerBackend"]


class ServerBackend:
    """The nouns that the API of a server has."""

    def __init__(self, server: Destination) -> None:
        self.connection = Connection(server.url, server.token)
        self.start_command = None

    @property
    def pages_url(self) -> str:
        """The address of the service's pages, without a trailing slash."""
        return self.connection.url

    @property
    def builds(self) -> Builds:
        """The builds."""
        return ServerBuilds(self.connection)

    @property
    def artifacts(self) -> Artifacts:
        """The files that jobs kept."""
        return ServerArtifacts(self.connection)

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
