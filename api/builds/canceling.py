"""Cancels of builds from requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import EngineBusy
from api.errors.responses import ApiError

if TYPE_CHECKING:
    from api.engine import EngineInterface
    from storage import Build, Storage

__all__ = ["cancel_build"]


def cancel_build(storage: Storage, engine: EngineInterface, build: Build) -> Build:
    """Cancel a build, unless it has finished; return it. Raises ApiError ``busy``."""
    if build.state.terminal:
        return build
    try:
        engine.cancel(build.id)
    except EngineBusy as error:
        raise ApiError("busy", str(error), headers={"Retry-After": "1"}) from None
    return storage.builds.get(build.id) or build
