"""Members of organizations of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.lookup import find_organization
from ci_daemon.remote.account_views import MemberView

if TYPE_CHECKING:
    from storage import Storage

__all__ = ["BoxMembers"]


class BoxMembers:
    """Members in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def all(self, org: str) -> list[MemberView]:
        """Return the members of an organization, owners first."""
        found = self._storage.members.all(find_organization(self._storage, org).id)
        return [MemberView(each.uuid, each.email, each.name, each.role) for each in found]
