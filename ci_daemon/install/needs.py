"""The requirements of the service: the host as `ci-daemon doctor` mends it, and the default image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_daemon.doctor import Check, commands, mend
from ci_daemon.install.host import Host, InstallError

if TYPE_CHECKING:
    from ci_daemon.install.release import Release

__all__ = ["image_lacking", "lacking", "make", "make_image"]

_MENDED = {"uidmap", "network", "mmdebstrap", "git", "namespaces", "tun"}
"""The doctor's checks of the host alone."""

_LACKING = 1
"""The exit code of `doctor` if a needed check fails."""


def lacking(host: Host, release: Release) -> str | None:
    """Return a text that names the commands that would mend the host; None if it needs none."""
    needed = commands(_mendable(host, release))
    return f"run {' and '.join(f'`{each}`' for each in needed)}" if needed else None


def make(host: Host, release: Release) -> None:
    """Run those commands. Raises InstallError if one fails, such as an unreachable package mirror."""
    for done in mend(_mendable(host, release)):
        if done.fault is not None:
            raise InstallError(f"`{done.command}` failed: {done.fault}")


def image_lacking(host: Host, release: Release) -> str | None:
    """Return a text if the default image is missing, else None."""
    there = all(each["ok"] for each in _findings(host, release) if each["name"] == "image")
    return None if there else "build the default image, from which VMs start (a minute)"


def make_image(host: Host, release: Release) -> None:
    """Build the default image."""
    host.ask(release.command, "image", "build")


def _mendable(host: Host, release: Release) -> list[Check]:
    return [
        Check(each["name"], ok=each["ok"], detail=each["detail"], mend=each["mend"].removeprefix("sudo "))
        for each in _findings(host, release)
        if each["name"] in _MENDED and each["mend"]
    ]


def _findings(host: Host, release: Release) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.ask(release.command, "doctor", allowed={0, _LACKING})
    return found
