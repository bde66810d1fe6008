"""Organizations, of the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.remote.account_views import OrganizationView

__all__ = ["Organizations"]


class Organizations(Protocol):
    """Organizations. All methods raise Failure, RequestFailed and StorageError."""

    def all(self) -> Sequence[OrganizationView]:
        """Return the organizations that the caller may see, oldest first."""
        ...

    def create(self, name: str, url: str, owner: str | None) -> OrganizationView:
        """Create an organization; of a server the caller owns it, on the box ``owner`` by e-mail address."""
        ...
