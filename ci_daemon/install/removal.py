"""Remove the service from a host, and its data only on request."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ci_daemon.install import links, release, units
from ci_daemon.install.host import USER, Host, InstallError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["remove_data", "remove_service", "service_files"]


def service_files(host: Host) -> list[Path]:
    """Return the files and folders of the service on the host, without the owner's data."""
    found = [host.opt, *links.present(host), *sorted(host.units.glob("ci-daemon*"))]
    return [each for each in found if each.exists() or each.is_symlink()]


def remove_service(host: Host) -> None:
    """Stop the service and all VMs, and remove the program. Users, builds and the configuration stay.

    Raises InstallError.
    """
    now = release.current(host)
    if any(host.units.glob("ci-daemon*")):
        units.stop(host)
    if now is not None and host.database.exists():
        host.call(now.command, "lease", "kill", "--all")
    units.remove(host)
    links.remove(host)
    shutil.rmtree(host.opt.resolve(), ignore_errors=True)
    if host.opt.is_symlink():
        host.opt.unlink()


def remove_data(host: Host) -> None:
    """Remove the state directory, the configuration and the user with its sub-ids, permanently."""
    for folder in (host.state, host.configuration.parent):
        if folder.exists():
            shutil.rmtree(folder.resolve())
            folder.unlink(missing_ok=True)
    try:
        host.run("userdel", USER)
    except InstallError as error:
        raise InstallError(f"the data is removed, but the user {USER} is not: {error}") from error
