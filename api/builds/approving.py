"""Approvals of builds from requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.errors.responses import ApiError
from storage import ApprovalNotAwaited

if TYPE_CHECKING:
    from api.engine import EngineInterface
    from storage import Build, Storage, User

__all__ = ["approve_build"]


def approve_build(storage: Storage, engine: EngineInterface, build: Build, by: User) -> Build:
    """Let a build run that waits for an approval; return it. Raises ApiError ``approval_not_awaited``."""
    try:
        approved = storage.approvals.approve(build.id, by.email)
    except ApprovalNotAwaited as error:
        raise ApiError("approval_not_awaited", f"build {build.number} cannot be approved: {error}") from None
    engine.jobs_added(build.id)
    return approved
