"""The caller's sessions, and their end."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Annotated

import storage
from api.errors.catalog import ApiError
from api.operations.operation import ACCOUNT, DELETE, GET, POST, SIGNED_IN, Call, Callers, Whole, done, operation
from api.operations.things import AUTH, USER, ThisCaller
from storage import immutable, shown_as

_SESSIONS = f"{USER}/sessions"


@immutable
class SessionRecord:
    """A session of the caller.

    ``address`` is where it began, ``agent`` the name of the program; both are null for one that was made on the host.
    ``current`` marks the session of the request.
    """

    uuid: str = shown_as("uuid")
    created_at: datetime
    last_used_at: datetime | None
    address: str | None
    agent: str | None
    current: bool


SessionList = Annotated[
    list[SessionRecord], Whole("The caller's sessions, newest first, 500 at most.", "SessionListResponse", "sessions")
]


@operation(
    "logout", POST, f"{AUTH}/logout", done("The token is revoked."), callers=Callers(security="own token", limited=True)
)
def logout(call: Call) -> None:
    """Revoke the token of this request, a session token or an API key.

    A repeated request with the same token gets the same response.
    """
    call.visitor.revoke_token()


@operation("listSessions", GET, _SESSIONS, "The sessions.", callers=ACCOUNT)
def list_sessions(call: Call, caller: ThisCaller) -> SessionList:
    """List the caller's sessions that have not ended, newest first."""
    found = call.storage.tokens.sessions(caller.user.id)
    return [storage.showing(SessionRecord, each, current=each.id == caller.token_id) for each in found]


@operation(
    "endSession",
    DELETE,
    f"{_SESSIONS}/{{id}}",
    done("The session has ended."),
    errors=("session_not_found",),
    callers=SIGNED_IN,
)
def end_session(call: Call, caller: ThisCaller, id: str) -> None:
    """End one of the caller's sessions; needs a session token."""
    if not call.storage.tokens.end_session(caller.user.id, id):
        raise ApiError("session_not_found", "you have no session with this ID")
