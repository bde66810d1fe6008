"""Members of organizations of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.remote import operations

if TYPE_CHECKING:
    from ci_daemon.remote.account_views import MemberView
    from ci_daemon.remote.connection import Connection

__all__ = ["ServerMembers"]


class ServerMembers:
    """Members by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, org: str) -> list[MemberView]:
        """Return the members of an organization, owners first."""
        return self._connection.call(operations.LIST_MEMBERS, {"org": org}).data
