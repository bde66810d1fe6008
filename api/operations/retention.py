"""Retention of logs, artifacts, sources and the audit, for the owner of the host (engine.md, "Logs")."""

from __future__ import annotations

from actors.cleanup import Expired, expire, preview
from api.operations.operation import GET, POST, Call, Refused, owners_operation
from storage import CONFIRM, immutable

_RETENTION = "/retention"


@immutable
class ConfirmedClock:
    """The seconds that the clock was set by, which the owner has confirmed; None if it was not."""

    set_by_seconds: float | None


@owners_operation("previewRetention", GET, _RETENTION)
def preview_retention(call: Call) -> Expired:
    """Find what `run_retention` would remove."""
    return preview(call.storage, call.box.retention, call.clock.now())


@owners_operation("runRetention", POST, _RETENTION)
def run_retention(call: Call) -> Expired:
    """Remove what is older than the settings allow, and what is over their budgets. Raises Refused.

    Nothing is removed before the owner has confirmed a clock that was set.
    """
    call.storage.clock_steps.read()
    if call.storage.clock_steps.jump is not None:
        raise Refused(f"nothing was removed: {CONFIRM}")
    return expire(call.storage, call.box.retention, call.clock.now())


@owners_operation("confirmClock", POST, f"{_RETENTION}/confirm")
def confirm_clock(call: Call) -> ConfirmedClock:
    """Let retention go on after the clock was set."""
    call.storage.clock_steps.read()
    jump = call.storage.clock_steps.confirm()
    return ConfirmedClock(None if jump is None else jump.by.total_seconds())
