"""The nouns of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api import pages_url
from ci_daemon.command.backend.server.repositories import ServerRepositories
from ci_daemon.remote.connection import Connection

if TYPE_CHECKING:
    from ci_daemon.command.backend.repositories import Repositories
    from ci_daemon.remote.destination import Destination


class ServerBackend:
    """The nouns that the API of a server has."""

    def __init__(self, server: Destination) -> None:
        self.connection = Connection(server.url, server.token)
        self.start_command = None

    @property
    def pages_url(self) -> str:
        """The address of the service's pages, without a trailing slash."""
        return pages_url(self.connection.url)

    @property
    def repositories(self) -> Repositories:
        """The connected repositories."""
        return ServerRepositories(self.connection)

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
