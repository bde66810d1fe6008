"""Reload the configuration of the running service (SIGHUP); some keys need a restart."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from ci_daemon.config import Config, ConfigError
from ci_daemon.host import journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import Engine
    from ci_daemon.host.notify import Notifier

__all__ = ["ConfigChange", "Reloader", "compare"]

_log = logging.getLogger(__name__)

_LIVE = frozenset({"artifacts", "cache", "jobs", "journal", "pool", "render", "retention"})
_FIXED = frozenset({"jobs.log_limit_bytes", "render.vms"})
"""Keys of live sections that are read only when the process starts."""


@dataclass(frozen=True, slots=True)
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
    """Return the old configuration with the new values of the keys that may change while jobs run."""
    changed = tuple(_changed_keys(old, new))
    pending = tuple(name for name in changed if name in _FIXED or name.partition(".")[0] not in _LIVE)
    config = new
    for section in {name.partition(".")[0] for name in pending}:
        keys = [name.partition(".")[2] for name in pending if name.startswith(f"{section}.")]
        kept = {key: getattr(getattr(old, section), key) for key in keys}
        config = replace(config, **{section: replace(getattr(config, section), **kept)})
    return ConfigChange(config, tuple(name for name in changed if name not in pending), pending)


def _changed_keys(old: Config, new: Config) -> Iterator[str]:
    for section in fields(old):
        before, after = getattr(old, section.name), getattr(new, section.name)
        for key in fields(before):
            if getattr(before, key.name) != getattr(after, key.name):
                yield f"{section.name}.{key.name}"


@dataclass(slots=True)
class Reloader:
    """Reloads the configuration and hands its live sections to the log and the engine.

    Args:
        config: the configuration in effect.
        load: reads the new configuration. Raises ConfigError.
        engine: gets the live sections but ``journal``.
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
        live = {each.name: getattr(config, each.name) for each in fields(self.engine.settings) if each.name in _LIVE}
        self.engine.reconfigure(replace(self.engine.settings, **live))
