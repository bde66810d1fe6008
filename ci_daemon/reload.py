"""Reload the configuration of the running service (SIGHUP); some keys wait for a restart."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from ci_daemon import journal
from ci_daemon.config import Config, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import Engine
    from ci_daemon.notify import Notifier

__all__ = ["Change", "Reloader", "change"]

_log = logging.getLogger(__name__)

_LIVE = frozenset({"artifacts", "cache", "jobs", "journal", "pool", "render", "retention"})
_FIXED = frozenset({"jobs.log_limit_bytes", "render.vms"})
"""Keys of live sections that are read only when the process starts."""


@dataclass(frozen=True, slots=True)
class Change:
    """The configuration after a reload, and the names of the keys that differ.

    ``taken`` keys are in effect; ``waiting`` keys need a restart.
    """

    config: Config
    taken: tuple[str, ...]
    waiting: tuple[str, ...]

    def __str__(self) -> str:
        """Return a phrase for the log and for `systemctl status`."""
        parts = [f"changed: {', '.join(self.taken)}"] if self.taken else []
        parts += [f"needs a restart: {', '.join(self.waiting)}"] if self.waiting else []
        return "; ".join(parts) or "nothing has changed"


def change(old: Config, new: Config) -> Change:
    """Merge the keys that may change while jobs run from the new configuration into the old one."""
    different = tuple(_different(old, new))
    waiting = tuple(name for name in different if name in _FIXED or name.partition(".")[0] not in _LIVE)
    config = new
    for section in {name.partition(".")[0] for name in waiting}:
        keys = [name.partition(".")[2] for name in waiting if name.startswith(f"{section}.")]
        kept = {key: getattr(getattr(old, section), key) for key in keys}
        config = replace(config, **{section: replace(getattr(config, section), **kept)})
    return Change(config, tuple(name for name in different if name not in waiting), waiting)


def _different(old: Config, new: Config) -> Iterator[str]:
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
            changed = change(self.config, self.load())
        except (ConfigError, ValueError) as error:
            for fault in str(error).splitlines():
                _log.error("the configuration stays as it was: %s", fault)
            self.notifier.ready(f"{self.status}; the configuration has an error and stays as it was: {error}")
            return
        self._go_by(changed.config)
        _log.log(logging.WARNING if changed.waiting else logging.INFO, "read the configuration again: %s", changed)
        self.notifier.ready(f"{self.status}; {changed}" if changed.waiting else self.status)

    def _go_by(self, config: Config) -> None:
        self.config = config
        journal.set_level(config.journal)
        given = {each.name: getattr(config, each.name) for each in fields(self.engine.settings) if each.name in _LIVE}
        self.engine.reconfigure(replace(self.engine.settings, **given))
