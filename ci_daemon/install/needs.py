"""What the service needs of the host and of the network: what `ci-daemon doctor` mends, and the default image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_daemon.doctor import Check, commands, mend
from ci_daemon.install.host import Host, InstallError

if TYPE_CHECKING:
    from ci_daemon.install.release import Release

__all__ = ["image_lacking", "lacking", "make", "make_image"]

_MENDED = {"uidmap", "network", "mmdebstrap", "git", "namespaces", "tun"}
"""The doctor's findings about the host alone."""

_LACKING = 1
"""How `doctor` ends where something needed is lacking."""


def lacking(host: Host, release: Release) -> str | None:
    """Say which commands would mend what the host lacks."""
    needed = commands(_mendable(host, release))
    return f"run {' and '.join(f'`{each}`' for each in needed)}" if needed else None


def make(host: Host, release: Release) -> None:
    """Mend it. Raises InstallError where the packages cannot be had."""
    for done in mend(_mendable(host, release)):
        if done.fault is not None:
            raise InstallError(f"`{done.command}` failed: {done.fault}")


def image_lacking(host: Host, release: Release) -> str | None:
    """Say that the default image is not there."""
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
