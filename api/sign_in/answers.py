"""Answers to people who signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from storage import immutable, shown_as

if TYPE_CHECKING:
    from storage import User, Uuid


@immutable
class UserRecord:
    """A user; ``name`` is null if the person has given none."""

    uuid: Uuid = shown_as("uuid")
    email: str
    name: str | None

    @classmethod
    def of(cls, user: User) -> Self:
        """Return the record of a stored user."""
        return cls(user.uuid, user.email, user.name or None)


@immutable
class TokenResponse:
    """A session token, shown only once."""

    token: str


@immutable
class AuthTokenResponse:
    """A session token, shown only once, and the user who signed in."""

    token: str
    user: UserRecord

    @classmethod
    def of(cls, token: str, user: User) -> Self:
        """Return the answer to a user who signed in."""
        return cls(token, UserRecord.of(user))
