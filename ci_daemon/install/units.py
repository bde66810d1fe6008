"""The systemd units of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.install.host import SERVICE, Host, InstallError

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.install.release import Release

__all__ = ["are_of", "is_active", "place", "refuse_override", "remove", "require_systemd", "start", "stop"]

_LAST_LINES = 8


def require_systemd(host: Host) -> None:
    """Raise InstallError if systemd does not run the host."""
    if not (host.root / "run/systemd/system").is_dir():
        raise InstallError(
            "systemd does not run this host, and the service is a unit of it: without it, make a virtual environment"
            " with `pip install`, and start `ci-daemon init` and `ci-daemon serve` by what runs your services"
        )


def refuse_override(host: Host) -> None:
    """Raise InstallError if a unit of the owner's in /etc replaces the release's."""
    own = host.root / "etc/systemd/system" / SERVICE
    if own.exists():
        raise InstallError(
            f"{own} takes the place of the unit that comes with a release: remove it, and keep what is yours in it as a"
            f" drop-in, by `systemctl edit {SERVICE}`"
        )


def are_of(host: Host, release: Release) -> bool:
    """Tell whether the host has the units of a release."""
    return _texts(host.units) == _texts(release.units)


def place(host: Host, release: Release) -> None:
    """Replace the installed units by a release's and enable the service. Drop-ins in /etc stay."""
    host.units.mkdir(parents=True, exist_ok=True)
    wanted = _texts(release.units)
    if not wanted:
        raise InstallError(f"{release.units} has no units: the release was not made whole; run the same command again")
    for name in _texts(host.units).keys() - wanted.keys():
        (host.units / name).unlink()
    for name, text in wanted.items():
        arriving = host.units / f".{name}.new"
        arriving.write_bytes(text)
        arriving.chmod(0o644)
        arriving.replace(host.units / name)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "--quiet", "enable", SERVICE)


def remove(host: Host) -> None:
    """Stop the service and its other units, and remove them."""
    names = sorted(_texts(host.units))
    if names:
        host.run("systemctl", "--quiet", "disable", "--now", *names)
    for name in names:
        (host.units / name).unlink()
    host.run("systemctl", "daemon-reload")


def is_active(host: Host) -> bool:
    """Tell whether the service runs and has reported that it is ready."""
    try:
        host.run("systemctl", "--quiet", "is-active", SERVICE)
    except InstallError:
        return False
    return True


def stop(host: Host) -> None:
    """Stop the service and its automatic restarts; its VMs run on."""
    host.run("systemctl", "stop", SERVICE)


def start(host: Host) -> None:
    """Start the service and wait until it answers. Raises InstallError with the end of its log."""
    try:
        host.run("systemctl", "start", SERVICE)
    except InstallError:
        log = host.run("journalctl", "--unit", SERVICE, "--lines", str(_LAST_LINES), "--output=cat", "--no-pager")
        host.run("systemctl", "stop", SERVICE)
        lines = "".join(f"\n  {line}" for line in log.strip().splitlines())
        raise InstallError(f"the service does not start; the end of its log is:{lines}") from None


def _texts(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.glob("ci-daemon*") if each.is_file()}
