"""What the service needs of the host and of the network: what `ci-daemon doctor` mends, and the default image."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ci_daemon.install.host import Host, InstallError

if TYPE_CHECKING:
    from ci_daemon.install.release import Release

__all__ = ["image_lacking", "lacking", "make", "make_image"]

_MENDED = {"uidmap", "network", "mmdebstrap", "git", "namespaces", "tun"}
"""The doctor's findings about the host alone."""

_LACKING = 1
"""How `doctor` ends where something needed is lacking."""

_APT = ["apt-get", "install", "-y"]


def lacking(host: Host, release: Release) -> str | None:
    """Say which commands would mend what the host lacks."""
    commands = _mending(host, release)
    return f"run {' and '.join(f'`{shlex.join(each)}`' for each in commands)}" if commands else None


def make(host: Host, release: Release) -> None:
    """Mend it. Raises InstallError where the packages cannot be had."""
    for command in _mending(host, release):
        try:
            host.run("env", "DEBIAN_FRONTEND=noninteractive", *command)
        except InstallError:
            if command[:1] != _APT[:1]:
                raise
            # Fresh machines have no package lists, old ones have stale lists; either way new lists are what helps.
            host.run("apt-get", "update")
            host.run("env", "DEBIAN_FRONTEND=noninteractive", *command)


def image_lacking(host: Host, release: Release) -> str | None:
    """Say that the default image is not there."""
    there = all(each["ok"] for each in _findings(host, release) if each["name"] == "image")
    return None if there else "build the default image, from which VMs start (a minute)"


def make_image(host: Host, release: Release) -> None:
    """Build the default image."""
    host.ask(release.command, "image", "build")


def _mending(host: Host, release: Release) -> list[list[str]]:
    mends = [
        shlex.split(each["mend"].removeprefix("sudo "))
        for each in _findings(host, release)
        if each["name"] in _MENDED and not each["ok"] and each["mend"]
    ]
    packages = [word for each in mends if each[:3] == _APT for word in each[3:]]
    return [*([[*_APT, *packages]] if packages else []), *(each for each in mends if each[:3] != _APT)]


def _findings(host: Host, release: Release) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.ask(release.command, "doctor", allowed={0, _LACKING})
    return found
