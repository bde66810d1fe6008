"""The start of a session, when a person has signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.sign_in.agents import agent_name
from storage import SessionOrigin

if TYPE_CHECKING:
    import falcon

    from api.http.client_addresses import ClientAddresses
    from storage import Storage, User


class SessionStart:
    """Starts sessions. Safe in any thread."""

    def __init__(self, storage: Storage, addresses: ClientAddresses) -> None:
        self._storage = storage
        self._addresses = addresses

    def token(self, req: falcon.Request, resp: falcon.Response, user: User, description: str) -> str:
        """Start a session of a user and return its token.

        The audit names the user as the caller, and no cache keeps the response.

        Args:
            req: the request that signs in.
            resp: its response.
            user: the person.
            description: the way of signing in, such as "passkey".
        """
        _, token = self._storage.tokens.create_session(user.id, description, self.origin(req))
        req.context.caller = self._storage.tokens.caller(token)
        resp.cache_control = ["no-store"]
        return token

    def origin(self, req: falcon.Request) -> SessionOrigin:
        """Return where a request comes from, as the person's list of sessions shows it."""
        return SessionOrigin(self._addresses.address(req), agent_name(req.user_agent))
