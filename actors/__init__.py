"""The live service: supervisors, jobs, the lease pool, logs as they grow."""

from actors.engine import Engine, EngineBusy
from actors.hub import Watch
from actors.intake import PlannedBuild, plan_jobs
from actors.render import RenderSettings
from actors.render.settling import RENDER_LOG
from actors.retention import RetentionSettings
from actors.runtime import Settings
from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings

__all__ = [
    "RENDER_LOG",
    "ArtifactSettings",
    "CacheSettings",
    "Engine",
    "EngineBusy",
    "JobSettings",
    "PlannedBuild",
    "PoolSettings",
    "RenderSettings",
    "RetentionSettings",
    "Settings",
    "Watch",
    "plan_jobs",
]
