"""The service itself (wire-decisions.md, "Meta")."""

from __future__ import annotations

from api.operations.operation import ANYBODY, GET, operation
from storage import immutable


@immutable
class PingRecord:
    """The response to a ping."""

    status: str = "ok"


@operation("ping", GET, "/api/v0/ping", "The API responds.", callers=ANYBODY)
def ping() -> PingRecord:
    """Check that the API responds."""
    return PingRecord()
