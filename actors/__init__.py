"""The live service: supervisors, jobs, the lease pool, logs as they grow."""

from actors.engine import Engine, EngineBusy
from actors.hub import Watch
from actors.intake import PlannedBuild, plan_jobs
from actors.retention import RetentionSettings
from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings

__all__ = [
    "ArtifactSettings",
    "CacheSettings",
    "Engine",
    "EngineBusy",
    "JobSettings",
    "PlannedBuild",
    "PoolSettings",
    "RetentionSettings",
    "Watch",
    "plan_jobs",
]
