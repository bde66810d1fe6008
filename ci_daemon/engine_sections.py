"""The sections of a configuration that the engine uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import EngineSettings

if TYPE_CHECKING:
    from ci_daemon.config import Config


def engine_settings(config: Config, base_url: str, api_address: tuple[str, int]) -> EngineSettings:
    """Return the engine's settings of a configuration, for an API at these addresses."""
    return EngineSettings(
        pool=config.pool,
        jobs=config.jobs,
        retention=config.retention,
        cache=config.cache,
        artifacts=config.artifacts,
        render=config.render,
        ir=config.ir,
        mail=config.mail,
        notifications=config.notifications,
        repositories=config.repositories,
        source=config.source,
        base_url=base_url,
        api_address=api_address,
        front_end=config.http.front_end(base_url),
    )
