"""The systemd units of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.install.host import SERVICE, Host, InstallError

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.install.release import Release

_LOG_LINES = 8


def require_systemd(host: Host) -> None:
    """Raise InstallError if systemd does not run the host."""
    if not (host.root / "run/systemd/system").is_dir():
        raise InstallError(
            "systemd does not run this host, so the service neither is nor can be its unit: instead, install ci-daemon"
            " with pip in a virtual environment, run `ci-daemon init`, and let your service manager run"
            " `ci-daemon serve`"
        )


def refuse_override(host: Host) -> None:
    """Raise InstallError if a unit of the owner's in /etc replaces the release's."""
    override = host.root / "etc/systemd/system" / SERVICE
    if override.exists():
        raise InstallError(
            f"{override} overrides the unit of the release: remove it, and keep your changes as a drop-in with"
            f" `systemctl edit {SERVICE}`"
        )


def match(host: Host, release: Release) -> bool:
    """Tell whether the host has the units of a release."""
    return _unit_files(host.units) == _unit_files(release.units)


def install(host: Host, release: Release) -> None:
    """Replace the installed units by a release's and enable the service. Drop-ins in /etc stay."""
    host.units.mkdir(parents=True, exist_ok=True)
    wanted = _unit_files(release.units)
    if not wanted:
        raise InstallError(f"the release is incomplete, {release.units} has no units: run the same command again")
    for name in _unit_files(host.units).keys() - wanted.keys():
        (host.units / name).unlink()
    for name, text in wanted.items():
        temporary = host.units / f".{name}.new"
        temporary.write_bytes(text)
        temporary.chmod(0o644)
        temporary.replace(host.units / name)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "--quiet", "enable", SERVICE)


def remove(host: Host) -> None:
    """Stop the service and its other units, and remove them."""
    names = sorted(_unit_files(host.units))
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
        log = host.run("journalctl", "--unit", SERVICE, "--lines", str(_LOG_LINES), "--output=cat", "--no-pager")
        host.run("systemctl", "stop", SERVICE)
        lines = "".join(f"\n  {line}" for line in log.strip().splitlines())
        raise InstallError(f"the service does not start; the end of its log is:{lines}") from None


def _unit_files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.glob("ci-daemon*") if each.is_file()}
