"""The live service: supervisors, jobs, the lease pool, logs as they grow."""

from actors.about import AboutFilter
from actors.engine import Engine, EngineBusy
from actors.intake import plan_jobs
from actors.render.settling import RENDER_LOG
from actors.retention import RetentionSettings
from actors.runtime import Settings
from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings
from actors.supervision import doing

__all__ = [
    "RENDER_LOG",
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
