"""Members of organizations, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ci_daemon.remote.account_views import MemberView

__all__ = ["Members"]


class Members(Protocol):
    """Members of organizations. All methods raise Failure, RequestFailed and StorageError."""

    def all(self, org: str) -> list[MemberView]:
        """Return the members of an organization, owners first."""
        ...
