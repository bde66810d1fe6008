"""The caller's sessions, and logout, which revokes the caller's token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer
from api.errors.catalog import ApiError
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    import storage
    from api.middleware.authentication import Access, BearerTokens
    from api.middleware.rate_limits import RateLimits
    from storage import Storage


class SessionRecord(StoredRecord):
    """A session of the caller.

    ``address`` is where it began, ``agent`` the name of the program; both are null for one that was made on the host.
    ``current`` marks the session of the request.
    """

    uuid: Uuid
    created_at: Timestamp
    last_used_at: Timestamp | None
    address: str | None
    agent: str | None
    current: bool

    @classmethod
    def of(cls, session: storage.Token, caller: storage.Caller) -> SessionRecord:
        """Return the record of a stored session."""
        return cls.showing(session, current=session.id == caller.token_id)


class SessionListResponse(JsonModel):
    """The caller's sessions, newest first, 500 at most."""

    sessions: list[SessionRecord]


class SessionsResource:
    """``/api/v0/user/sessions`` and the paths below it."""

    def __init__(self, storage: Storage, access: Access, limits: RateLimits) -> None:
        self._storage = storage
        self._access = access
        self._limits = limits

    @operation("listSessions", Answer(200, "The sessions.", SessionListResponse))
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the caller's sessions that have not ended, newest first."""
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        found = self._storage.tokens.sessions(caller.user.id)
        answer(resp, SessionListResponse(sessions=[SessionRecord.of(session, caller) for session in found]))

    @operation("endSession", Answer(204, "The session has ended."), errors=("session_required", "session_not_found"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, id: str) -> None:
        """End one of the caller's sessions; needs a session token."""
        self._limits.limit_address(req, resp)
        caller = self._access.session(req)
        self._limits.limit_account(caller, resp)
        if not self._storage.tokens.end_session(caller.user.id, id):
            raise ApiError("session_not_found", "you have no session with this ID")
        resp.status = 204


class LogoutResource:
    """``/api/v0/auth/logout``."""

    def __init__(self, tokens: BearerTokens, limits: RateLimits) -> None:
        self._tokens = tokens
        self._limits = limits

    @operation("logout", Answer(204, "The token is revoked."))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Revoke the token of this request, a session token or an API key.

        A repeated request with the same token gets the same response.
        """
        self._limits.limit_address(req, resp)
        self._tokens.revoke(req)
        resp.status = 204
