"""Checks of the service on this host: its unit, its address, the synchronization of its clock."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.sandbox.program import STARTER
from api import CannotListen, may_listen
from ci_daemon.doctor.check import Check, good
from ci_daemon.lock import served_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["address", "environment", "synchronized", "unit"]

_SYSTEMD = Path("/run/systemd/system")
_UNIT = "ci-daemon.service"
_STATE_DIR = Path("/var/lib/ci-daemon")
"""The state directory that the unit serves."""


def environment(state_dir: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment that decides where VMs start.

    For the unit's state directory it says that a starter is there, as the unit's own environment does.
    """
    return {**environ, STARTER: ""} if state_dir == _STATE_DIR else environ


def address(state_dir: Path, listen: str) -> Check:
    """Check the address: the service answers there, or could listen there."""
    name = "address"
    server = served_by(state_dir)
    if server is not None:
        return good(name, f"the service runs as process {server.pid} on {server.url or listen}")
    try:
        may_listen(listen)
    except CannotListen as error:
        return Check(name, ok=False, detail=f"the service {error}", needed=False, fixable=False)
    return good(name, f"the service does not run, and {listen} is free for it")


def synchronized() -> Iterator[Check]:
    """Check that the clock is synchronized; skipped without systemd."""
    if not _SYSTEMD.is_dir() or shutil.which("timedatectl") is None:
        return
    if _said("timedatectl", "show", "--property=NTPSynchronized", "--value") == "yes":
        yield good("time", "the clock is kept right over the network")
        return
    detail = "nothing keeps the clock right, and bills and tokens go by it"
    yield Check("time", ok=False, detail=detail, mend="timedatectl set-ntp true", needed=False)


def unit(state_dir: Path) -> Iterator[Check]:
    """Check that the unit is enabled and runs; skipped without systemd, or for another state directory."""
    name = "service"
    if not _SYSTEMD.is_dir() or state_dir != _STATE_DIR:
        return
    enabled, active = (_said("systemctl", asked, _UNIT) for asked in ("is-enabled", "is-active"))
    if enabled in {"", "not-found"}:
        detail = f"{_UNIT} is not installed, so nothing starts the service with the host"
        yield Check(name, ok=False, detail=detail, mend="ci-daemon install", needed=False, fixable=False)
    elif enabled != "enabled":
        detail = f"{_UNIT} is {enabled}: it does not start with the host"
        yield Check(name, ok=False, detail=detail, mend=f"systemctl enable {_UNIT}", needed=False)
    elif active != "active":
        detail = f"{_UNIT} is {active}"
        yield Check(name, ok=False, detail=detail, mend=f"systemctl start {_UNIT}", needed=False, fixable=False)
    else:
        yield good(name, f"{_UNIT} runs, and starts with the host")


def _said(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip()
