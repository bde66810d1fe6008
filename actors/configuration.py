"""The configuration of the live service, which the owner may change while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.cleanup.retention import RetentionSettings
from actors.ir import IrLimits
from actors.render.settings import RenderSettings
from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings

__all__ = ["Configuration", "Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the live service: its sections, and the addresses of the API.

    ``api_address`` is where this process reaches the API, ``base_url`` is what goes into ``CI_BUILD_URL``.
    """

    pool: PoolSettings = field(default_factory=PoolSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    render: RenderSettings = field(default_factory=RenderSettings)
    limits: IrLimits = field(default_factory=IrLimits)
    base_url: str = "http://127.0.0.1:8800"
    api_address: tuple[str, int] = ("127.0.0.1", 8800)


@dataclass(slots=True)
class Configuration:
    """The settings in force, to be read anew at each use. Only the engine writes here."""

    settings: Settings
