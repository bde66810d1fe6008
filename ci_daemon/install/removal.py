"""Remove the service from a host, and its data only on request."""

from __future__ import annotations

import shutil
from functools import partial
from os.path import lexists
from typing import TYPE_CHECKING

from ci_daemon.install import links, release, units
from ci_daemon.install.host import USER, Host, InstallError
from ci_daemon.terminal import counted
from ci_daemon.terminal.text import size_text
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_FOR_THE_NEXT = "the next installation uses it again; --data would remove it"


@immutable
class RemovalStep:
    """A step of a removal: ``title`` says what is being done. ``apply`` may raise InstallError."""

    title: str
    apply: Callable[[], None]


def service_files(host: Host) -> Mapping[Path, str]:
    """Return what the files and folders of the service are, by their paths; not the owner's data."""
    found = {
        host.opt: f"the program, {counted(len([*host.opt.glob('releases/*')]), 'release')} of {size_text(_size(host))}",
        **dict.fromkeys(links.present(host), "a link to the program"),
        **dict.fromkeys(sorted(host.units.glob("ci-daemon*")), "a unit of systemd"),
    }
    return {path: what for path, what in found.items() if lexists(path)}


def data_files(host: Host) -> Mapping[Path, str]:
    """Return what the folders of the owner's data are, by their paths."""
    database = f", with a database of {size_text(host.database.stat().st_size)}" if host.database.exists() else ""
    found = {
        host.state: f"users, builds, logs, artifacts, images and secrets{database}",
        host.configuration.parent: "the configuration",
    }
    return {path: what for path, what in found.items() if path.exists()}


def kept_parts(host: Host, *, data: bool) -> Mapping[str, str]:
    """Return why parts of an installation stay on the host, by their names.

    ``data`` tells whether the data is removed too.
    """
    own = {} if data else dict.fromkeys([*map(str, data_files(host)), f"the user {USER}"], _FOR_THE_NEXT)
    mounts = [each for each in (host.opt, host.state, host.configuration.parent) if each.is_mount()]
    drop_ins = sorted((host.root / "etc/systemd/system").glob("ci-daemon*.d"))
    return {
        **{str(each): "it is a mount point, and is only emptied" for each in mounts},
        **own,
        **{str(each): "these drop-ins are not the installation's" for each in drop_ins},
        "packages of the host": "other programs may need them",
    }


def removal_steps(host: Host, *, data: bool) -> Iterator[RemovalStep]:
    """Yield the steps that end the service and all VMs, and remove the program.

    With ``data``, they remove all else too. Each is to be done before the next one is asked for.
    """
    now = release.current(host)
    if any(host.units.glob("ci-daemon*")):
        yield RemovalStep("stopping the service", partial(units.stop, host))
    if now is not None and host.database.exists():
        yield RemovalStep("ending all VMs", partial(host.call, now.command, "lease", "kill", "--all"))
    yield RemovalStep("removing the units", partial(units.remove, host))
    yield RemovalStep("removing the links to the program", partial(links.remove, host))
    for folder in (host.opt, *(data_files(host) if data else ())):
        yield RemovalStep(f"removing {folder}", partial(_remove_folder, folder))
    if data:
        yield RemovalStep(f"removing the user {USER} and its sub-ids", partial(_remove_user, host))


def _remove_folder(folder: Path) -> None:
    """Remove a folder, or one that a link leads to, and the link. A mount point is only emptied."""
    target = folder.resolve()
    if target.exists():
        shutil.rmtree(target, ignore_errors=target.is_mount())
    if folder.is_symlink():
        folder.unlink()


def _remove_user(host: Host) -> None:
    try:
        host.run("userdel", USER)
    except InstallError as error:
        raise InstallError(f"the data is removed, but the user {USER} is not: {error}") from error


def _size(host: Host) -> int:
    """Return the bytes of all releases."""
    return sum(each.lstat().st_size for each in host.opt.resolve().rglob("*") if each.is_file())
