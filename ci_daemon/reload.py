"""What of another configuration takes effect in the running service, and what waits for a restart (SIGHUP)."""

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
"""Keys of live sections that somebody was given once, as the process began."""


@dataclass(frozen=True, slots=True)
class Change:
    """The configuration to go by from here on, and the names of the keys that differ: those taken, and the others."""

    config: Config
    taken: tuple[str, ...]
    waiting: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a phrase for the log and for `systemctl status`."""
        parts = [f"changed: {', '.join(self.taken)}"] if self.taken else []
        parts += [f"needs a restart: {', '.join(self.waiting)}"] if self.waiting else []
        return "; ".join(parts) or "nothing has changed"


def change(old: Config, new: Config) -> Change:
    """Take from the new configuration what may change while jobs run, and leave the rest as it is in the old one."""
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
    """Reads the configuration again when told to, and gives each part of it to who goes by it.

    Args:
        config: the configuration that the service goes by.
        load: reads the one that is to be. Raises ConfigError.
        engine: goes by most of what may change.
        notifier: is told what became of it.
        status: what the service does, for `systemctl status`.
    """

    config: Config
    load: Callable[[], Config]
    engine: Engine
    notifier: Notifier
    status: str

    def reload(self) -> None:
        """Take what may change and name what may not; of a configuration with an error nothing is taken."""
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
