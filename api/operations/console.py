"""The console of the host's owner: links to it, which only a command on the host makes, and sessions."""

from __future__ import annotations

from api.operations.operation import DELETE, POST, Call, owners_operation
from api.operations.users import NewLink
from storage import immutable

_CONSOLE = "/console"


@immutable
class EndedSessions:
    """The number of sessions and unused links that ended."""

    sessions: int


@owners_operation("createConsoleLink", POST, f"{_CONSOLE}/links")
def create_console_link(call: Call) -> NewLink:
    """Make a link by which the owner of the host signs in to the console.

    It is good once, within 15 minutes, and the session lasts an hour.
    """
    return NewLink(call.storage.owner_sessions.link(call.actor))


@owners_operation("endConsoleSessions", DELETE, f"{_CONSOLE}/sessions")
def end_console_sessions(call: Call) -> EndedSessions:
    """End every session of the owner in the console, and every link to one."""
    return EndedSessions(call.storage.owner_sessions.end_all())
