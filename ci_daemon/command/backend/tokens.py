"""Tokens of users, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from storage import immutable

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["NewToken", "Tokens", "UserToken"]


@immutable
class UserToken:
    """A token without its value; its kind is "api-key" or "session"."""

    id: str
    kind: str
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@immutable
class NewToken(UserToken):
    """A new token with its value, which is shown only once."""

    token: str


class Tokens(Protocol):
    """Tokens of a user, who is named on the box and is the caller of a server.

    All methods raise Failure, RequestFailed and StorageError.
    """

    def all(self, email: str | None) -> list[UserToken]:
        """Return a user's tokens."""
        ...

    def create(self, email: str | None, kind: str, description: str, expires_at: datetime | None) -> NewToken:
        """Create a token."""
        ...

    def revoke(self, id: str) -> None:
        """Revoke a token. It is invalid at once."""
        ...
