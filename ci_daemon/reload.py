"""Reload the configuration of the running service (SIGHUP); keys that are not live need a restart."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from actors import EngineSettings
from ci_daemon.config import Config, ConfigError
from ci_daemon.host import journal
from storage import immutable, setting_declaration

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance

    from actors import Engine
    from ci_daemon.host.notify import Notifier

T = TypeVar("T", bound="DataclassInstance")

_log = logging.getLogger(__name__)


@immutable
class ConfigChange:
    """The configuration after a reload, and the names of the keys that differ.

    ``applied`` keys are in effect; ``pending`` keys need a restart.
    """

    config: Config
    applied: tuple[str, ...]
    pending: tuple[str, ...]

    def __str__(self) -> str:
        """Return a phrase for the log and for `systemctl status`."""
        parts = [f"changed: {', '.join(self.applied)}"] if self.applied else []
        parts += [f"needs a restart: {', '.join(self.pending)}"] if self.pending else []
        return "; ".join(parts) or "nothing has changed"


def compare(old: Config, new: Config) -> ConfigChange:
    """Return the old configuration with the new values of the live keys (`storage.setting`)."""
    applied: list[str] = []
    pending: list[str] = []
    config = _merged(old, new, "", applied, pending)
    return ConfigChange(config, tuple(applied), tuple(pending))


def _merged(old: T, new: T, above: str, applied: list[str], pending: list[str]) -> T:
    """Return new settings with the old values of keys that are not live; add the names of changed keys."""
    kept: dict[str, object] = {}
    for each in fields(old):
        name, before, after = f"{above}{each.name}", getattr(old, each.name), getattr(new, each.name)
        if before == after:
            continue
        if is_dataclass(before):
            kept[each.name] = _merged(before, after, f"{name}.", applied, pending)
        elif setting_declaration(each).live:
            applied.append(name)
        else:
            pending.append(name)
            kept[each.name] = before
    return replace(new, **kept)


@dataclass(slots=True)
class Reloader:
    """Reloads the configuration and hands it to the log and the engine.

    Args:
        config: the configuration in effect.
        load: reads the new configuration. Raises ConfigError.
        engine: gets the sections of its settings.
        notifier: reports the result to systemd.
        status: the status line for `systemctl status`.
    """

    config: Config
    load: Callable[[], Config]
    engine: Engine
    notifier: Notifier
    status: str

    def reload(self) -> None:
        """Apply the keys that may change and report the others; a configuration with an error changes nothing."""
        self.notifier.reloading()
        try:
            changed = compare(self.config, self.load())
        except (ConfigError, ValueError) as error:
            for line in str(error).splitlines():
                _log.error("the configuration is not reloaded: %s", line)
            self.notifier.ready(f"{self.status}; the configuration has an error and is not reloaded: {error}")
            return
        self._apply(changed.config)
        _log.log(logging.WARNING if changed.pending else logging.INFO, "reloaded the configuration: %s", changed)
        self.notifier.ready(f"{self.status}; {changed}" if changed.pending else self.status)

    def _apply(self, config: Config) -> None:
        self.config = config
        journal.set_level(config.journal)
        shared = {each.name for each in fields(self.engine.settings)} & {each.name for each in fields(config)}
        sections = {name: getattr(config, name) for name in shared}
        self.engine.reconfigure(replace(self.engine.settings, **sections))


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
        terminals=config.terminals,
        previews=config.previews,
        base_url=base_url,
        api_address=api_address,
        front_end=config.http.front_end(base_url),
    )
