"""The requirements of the service: the host as `ci-daemon doctor` fixes it, and the default image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_daemon.doctor import Check, apply_fixes, fix_commands
from ci_daemon.install.host import Host, InstallError

if TYPE_CHECKING:
    from ci_daemon.install.release import Release

_HOST_CHECKS = {"uidmap", "network", "mmdebstrap", "git", "ssh", "namespaces", "tun"}
"""The doctor's checks of the host alone."""

_CHECK_FAILED = 1
"""The exit code of `doctor` if a needed check fails."""


def check(host: Host, release: Release) -> str | None:
    """Return a text that names the commands that fix the host; None if it needs none."""
    needed = fix_commands(_fixable(host, release))
    return f"run {' and '.join(f'`{each}`' for each in needed)}" if needed else None


def install(host: Host, release: Release) -> None:
    """Run the commands that fix the host. Raises InstallError, as if a package mirror is unreachable."""
    for done in apply_fixes(_fixable(host, release)):
        if done.error is not None:
            raise InstallError(f"`{done.command}` failed: {done.error}")


def check_image(host: Host, release: Release) -> str | None:
    """Return a text if the default image is missing, else None."""
    exists = all(each["ok"] for each in _findings(host, release) if each["name"] == "image")
    return None if exists else "build the default image, from which VMs start (a minute)"


def build_image(host: Host, release: Release) -> None:
    """Build the default image."""
    host.call(release.command, "image", "build")


def _fixable(host: Host, release: Release) -> list[Check]:
    return [
        Check(each["name"], ok=each["ok"], detail=each["detail"], fix=each["mend"].removeprefix("sudo "))
        for each in _findings(host, release)
        if each["name"] in _HOST_CHECKS and each["mend"]
    ]


def _findings(host: Host, release: Release) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.call(release.command, "doctor", allowed={0, _CHECK_FAILED})
    return found
