"""Organizations of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.session import Failure
from ci_daemon.remote import operations

if TYPE_CHECKING:
    from ci_daemon.remote.account_views import OrganizationView
    from ci_daemon.remote.connection import Connection

__all__ = ["ServerOrganizations"]


class ServerOrganizations:
    """Organizations by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> list[OrganizationView]:
        """Return the caller's organizations, oldest first."""
        return list(self._connection.items(operations.LIST_ORGANIZATIONS))

    def create(self, name: str, url: str, owner: str | None) -> OrganizationView:
        """Create an organization of the caller's."""
        if owner is not None:
            raise Failure("with a server you own what you create: leave --owner out, or give --state-dir on the box")
        return self._connection.call(operations.CREATE_ORGANIZATION, body={"name": name, "url": url})
