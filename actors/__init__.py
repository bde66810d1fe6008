"""The live service: supervisors, job actors, the lease pool, log streams.

The engine is imported on first use, because most `ci-daemon` commands only need the settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from actors.about import AboutFilter
from actors.retention import RetentionSettings
from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings

if TYPE_CHECKING:
    from actors.engine import Engine, EngineBusy
    from actors.intake import plan_jobs
    from actors.runtime import Settings
    from actors.supervision import doing

__all__ = [
    "AboutFilter",
    "ArtifactSettings",
    "CacheSettings",
    "Engine",
    "EngineBusy",
    "JobSettings",
    "PoolSettings",
    "RetentionSettings",
    "Settings",
    "doing",
    "plan_jobs",
]

_LATER = {
    "Engine": "actors.engine",
    "EngineBusy": "actors.engine",
    "Settings": "actors.runtime",
    "doing": "actors.supervision",
    "plan_jobs": "actors.intake",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
