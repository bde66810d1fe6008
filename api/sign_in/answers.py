"""Responses to people who signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.fields import StoredRecord, Uuid
from storage import JsonModel

if TYPE_CHECKING:
    import storage


class UserRecord(StoredRecord):
    """A user; ``name`` is null if the person has given none."""

    uuid: Uuid
    email: str
    name: str | None

    @classmethod
    def of(cls, user: storage.User) -> UserRecord:
        """Return the record of a stored user."""
        return cls.showing(user, name=user.name or None)


class TokenResponse(JsonModel):
    """A session token, shown only once."""

    token: str


class AuthTokenResponse(JsonModel):
    """A session token, shown only once, and the user who signed in."""

    token: str
    user: UserRecord
