"""Tokens of all users of the box."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_daemon.command.backend.tokens import NewToken, UserToken
from ci_daemon.command.support.lookup import find_user
from ci_daemon.command.support.session import Failure

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Storage, Token, User

__all__ = ["BoxTokens"]


class BoxTokens:
    """Tokens in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def all(self, email: str | None) -> list[UserToken]:
        """Return a user's tokens, oldest first, with expired ones, without revoked ones."""
        return [_token(each) for each in self._storage.tokens.of_user(self._user(email).id)]

    def create(self, email: str | None, kind: str, description: str, expires_at: datetime | None) -> NewToken:
        """Create a token."""
        user = self._user(email)
        made, secret = (
            self._storage.tokens.create_session(user.id, description)
            if kind == "session"
            else self._storage.tokens.create_api_key(user.id, description, expires_at)
        )
        return NewToken(**asdict(_token(made)), token=secret)

    def revoke(self, id: str) -> None:
        """Revoke a token of any user. It is invalid at once."""
        if not self._storage.tokens.revoke_named(id):
            raise Failure(f"there is no token {id}, or it is revoked: `ci-daemon token list EMAIL` shows what is")

    def _user(self, email: str | None) -> User:
        if email is None:
            raise Failure("on the box, say whose tokens: give EMAIL, or sign in to a server with `ci-daemon login`")
        return find_user(self._storage, email)


def _token(each: Token) -> UserToken:
    kind = each.kind.value.replace("_", "-")
    return UserToken(each.uuid, kind, each.description, each.created_at, each.expires_at, each.last_used_at)
