"""What is the owner's and outlives every release: the configuration and the state directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon import config
from ci_daemon.install import account
from ci_daemon.install.host import USER, Host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.install.release import Release

__all__ = [
    "configuration_lacking",
    "directory_lacking",
    "make_configuration",
    "make_directory",
    "settings",
]

_OTHERS_IDS = {"images", "sandbox"}
"""Folders of the state directory in which files belong to sub-ids."""


def settings(host: Host) -> config.Config:
    """Return the configuration that the service will read. Raises ConfigError, which names the line."""
    return config.load(host.state, {}, host.configuration)


def configuration_lacking(host: Host) -> str | None:
    """Say that there is no configuration, or none that the service may read."""
    try:
        there = host.configuration.stat()
    except FileNotFoundError:
        return f"write {host.configuration}, every key at its default"
    return None if there.st_gid == account.ids(host)[1] else f"let {USER} read {host.configuration}"


def make_configuration(host: Host) -> None:
    """Write the configuration where there is none; what it says is the owner's, and may hold a password."""
    host.configuration.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not host.configuration.exists():
        arriving = host.configuration.with_suffix(".new")
        arriving.write_text(config.commented_configuration(), encoding="utf-8")
        arriving.chmod(0o640)
        arriving.replace(host.configuration)
    os.chown(host.configuration, -1, account.ids(host)[1])
    host.configuration.chmod(host.configuration.stat().st_mode | 0o040)


def directory_lacking(host: Host) -> str | None:
    """Say what the state directory lacks: itself, or its owner, as after `ci-daemon restore`."""
    if not host.database.exists():
        return f"make the state directory {host.state}"
    return f"give {host.state} to {USER}" if _is_roots(host.state) else None


def make_directory(host: Host, release: Release) -> None:
    """Make the state directory, the service's alone."""
    host.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_roots(host.state):
        # While it is root's nobody else reaches into it, so nothing below it can be exchanged for something of root's.
        host.state.chmod(0o700)
        uid, gid = account.ids(host)
        for path in _all_of(host.state.resolve()):
            os.chown(path, uid, gid, follow_symlinks=False)
    host.ask(release.command, "init")


def _is_roots(folder: Path) -> bool:
    return folder.stat().st_uid == 0


def _all_of(folder: Path) -> Iterator[Path]:
    """Yield a folder last and what is below it before, but for what belongs to sub-ids."""
    for inside, folders, files in os.walk(folder):
        if inside == str(folder):
            folders[:] = sorted(set(folders) - _OTHERS_IDS)
        yield from (Path(inside, name) for name in [*folders, *files])
    yield folder
