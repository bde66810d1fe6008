"""Every command by its name, and under which heading of the help; each is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

__all__ = ["HEADINGS", "Catalog"]

HEADINGS = {
    "Set up": ("install", "uninstall", "init", "config", "doctor", "image"),
    "See": ("status", "top", "queue", "lease", "logs", "audit"),
    "Run": ("serve", "drain", "resume", "cache", "retention", "backup", "restore"),
    "People and money": ("user", "org", "token", "coupon", "ledger"),
    "Build": ("submit", "render", "pipeline", "build", "debug", "secret"),
}
"""In the order a newcomer meets them."""

_MODULES = {"uninstall": "install", "resume": "drain", "restore": "backup"}
"""Commands that share a module with their counterpart; all others have one of their own name."""


class Catalog(Mapping[str, "click.Command"]):
    """The commands by name. Most of the time that a small one takes is imports, so it pays for no other's."""

    def __getitem__(self, name: str) -> click.Command:
        if not any(name in names for names in HEADINGS.values()):
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"ci_daemon.command.{_MODULES.get(name, name)}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        for names in HEADINGS.values():
            yield from names

    def __len__(self) -> int:
        return sum(map(len, HEADINGS.values()))
