"""The engine's refusals, told apart by its codes and by its own words where those are too few."""

from __future__ import annotations

from http import HTTPStatus

from actors.vms.provider import ProviderAway, VmError

_NO_MAJORITY = (
    "dqlite leader", "cowsql leader", "database is locked", "no known leader", "checkpoint in progress",
    "failed to begin transaction",
)  # fmt: skip
_NO_MEMBER = (
    "missing event connection", "server isn't ready", "daemon is starting up", "daemon is shutting down", "dial tcp",
    "unable to connect", "connection refused", "no route to host", "i/o timeout", "context deadline exceeded",
)  # fmt: skip
"""Words of a member that cannot reach the member with the instance or volume."""

_LONG_PATH = "file name too long"
_SHOWN_CHARS = 200


class EngineError(VmError):
    """The engine refused a request, or failed at it; the message is its own."""


class NotFound(EngineError):
    """The engine has nothing of that name."""


class StartFailed(EngineError):
    """An instance was accepted and did not start; the message has what its log says of it."""


class EngineAway(ProviderAway):
    """No member answers, or the one that is needed does not, or the database has no majority.

    This is also the case if the members do not trust the service's certificate. Nothing is known of any VM.
    """


class NotTrusted(EngineAway):
    """The engine does not know this caller."""


def refusal(text: str, code: int) -> VmError:
    """Return the error for what the engine says, with the code that it gives."""
    lowered = text.lower()
    if any(each in lowered for each in _NO_MAJORITY):
        return EngineAway(f"the database of the cluster does not answer: {text}")
    if code == HTTPStatus.SERVICE_UNAVAILABLE or any(each in lowered for each in _NO_MEMBER):
        return EngineAway(f"a member of the engine does not answer: {text}")
    if code == HTTPStatus.NOT_FOUND or lowered.endswith("not found"):
        return NotFound(text)
    if _LONG_PATH in lowered:
        message = f"the engine cannot copy a disk with a path of more than 4,096 bytes: {text[:_SHOWN_CHARS]}…"
        return EngineError(message)
    return EngineError(text)
