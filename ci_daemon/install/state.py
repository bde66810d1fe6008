"""The configuration and the state directory, which outlive every release."""

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

_SUB_ID_FOLDERS = {"images", "sandbox"}
"""Folders of the state directory whose files belong to sub-ids."""


def settings(host: Host) -> config.Config:
    """Return the configuration that the service will read. Raises ConfigError, which names the line."""
    return config.load(host.state, {}, host.configuration)


def check_configuration(host: Host) -> str | None:
    """Return a text if the configuration is missing or the service cannot read it, else None."""
    try:
        status = host.configuration.stat()
    except FileNotFoundError:
        return f"write {host.configuration} with every key at its default"
    return None if status.st_gid == account.ids(host)[1] else f"allow {USER} to read {host.configuration}"


def create_configuration(host: Host) -> None:
    """Write the default configuration if there is none, and let only the service's group read it.

    An existing file keeps its contents, which may include a password.
    """
    host.configuration.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not host.configuration.exists():
        temporary = host.configuration.with_suffix(".new")
        temporary.write_text(config.commented_configuration(), encoding="utf-8")
        temporary.chmod(0o640)
        temporary.replace(host.configuration)
    os.chown(host.configuration, -1, account.ids(host)[1])
    host.configuration.chmod(host.configuration.stat().st_mode | 0o040)


def check_directory(host: Host) -> str | None:
    """Return a text if the state directory is missing or root's, as after a restore; else None."""
    if not host.database.exists():
        return f"create the state directory {host.state}"
    return f"change the owner of {host.state} to {USER}" if _belongs_to_root(host.state) else None


def create_directory(host: Host, release: Release) -> None:
    """Create the state directory, accessible to the service's user only."""
    host.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _belongs_to_root(host.state):
        # While root owns it nobody else can enter it, so no file below can be replaced by a link to one of root's.
        host.state.chmod(0o700)
        uid, gid = account.ids(host)
        for path in _tree(host.state.resolve()):
            os.chown(path, uid, gid, follow_symlinks=False)
    host.call(release.command, "init")


def _belongs_to_root(folder: Path) -> bool:
    return folder.stat().st_uid == 0


def _tree(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder, except what belongs to sub-ids, and the folder last."""
    for inside, folders, files in os.walk(folder):
        if inside == str(folder):
            folders[:] = sorted(set(folders) - _SUB_ID_FOLDERS)
        yield from (Path(inside, name) for name in [*folders, *files])
    yield folder
