"""API keys of the caller of a server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_daemon.command.backend.tokens import NewToken, UserToken
from ci_daemon.command.support.session import Failure
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.remote import operations

if TYPE_CHECKING:
    from datetime import datetime

    from ci_daemon.remote.connection import Connection

__all__ = ["ServerTokens"]

_API_KEY = "api-key"


class ServerTokens:
    """API keys by the API. Sessions are begun by signing in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, email: str | None) -> list[UserToken]:
        """Return the caller's API keys."""
        _refuse_others(email)
        found = self._connection.call(operations.LIST_API_KEYS).api_tokens
        return [UserToken(kind=_API_KEY, **asdict(each)) for each in found]

    def create(self, email: str | None, kind: str, description: str, expires_at: datetime | None) -> NewToken:
        """Create an API key of the caller's; only a session may."""
        _refuse_others(email)
        if kind != _API_KEY:
            raise Failure("a session begins with `ci-daemon login`: leave --kind out")
        body = {"description": description, "expires_at": expires_at and timestamp(expires_at)}
        made = self._connection.call(operations.CREATE_API_KEY, body=body)
        return NewToken(kind=_API_KEY, token=made.token, **asdict(made.api_token))

    def revoke(self, id: str) -> None:
        """Revoke an API key. It is invalid at once."""
        self._connection.call(operations.REVOKE_API_KEY, {"id": id})


def _refuse_others(email: str | None) -> None:
    """Raise Failure if a user is named: a server knows its caller."""
    if email is not None:
        raise Failure("with a server the API keys are your own: leave EMAIL out, or give --state-dir on the box")
