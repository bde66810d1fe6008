"""Checks of the service on this host: its unit, its address, the synchronization of its clock."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from actors.mail import MailError, try_mail_server
from actors.repositories import hook_is_outdated
from actors.vms.host import BROKER_VARIABLE
from api import CannotListen, check_listen_address
from ci_daemon.doctor.check import Check, passed
from ci_daemon.host.lock import served_by
from storage import Storage, StorageError, SystemClock, frozen, schema_of_release

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.mail import MailSettings

_SYSTEMD = Path("/run/systemd/system")
_UNIT = "ci-daemon.service"
_STATE_DIR = Path("/var/lib/ci-daemon")
"""The state directory that the unit serves."""


def environment(state_dir: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment that decides where VMs start.

    For the unit's state directory it says that a broker is there, as the unit's own environment does.
    """
    return {**environ, BROKER_VARIABLE: ""} if state_dir == _STATE_DIR else environ


def address(state_dir: Path, listen: str) -> Check:
    """Check the address: the service answers there, or could listen there."""
    name = "address"
    server = served_by(state_dir)
    if server is not None:
        return passed(name, f"the service runs as process {server.pid} on {server.url or listen}")
    try:
        check_listen_address(listen)
    except CannotListen as error:
        return Check(name, ok=False, detail=f"the service {error}", needed=False, fixable=False)
    return passed(name, f"the service does not run; {listen} is free")


def mail_server(settings: MailSettings) -> Check:
    """Check that the mail server lets the service in, if one is configured: none is needed."""
    name = "mail"
    if not settings.host:
        detail = (
            "no mail server is configured ([mail]): `ci-daemon user link EMAIL` prints the links that it would send"
        )
        return passed(name, detail)
    steps: list[str] = []
    try:
        try_mail_server(settings, steps.append)
    except MailError as error:
        return Check(name, ok=False, detail=str(error), needed=False, fixable=False)
    return passed(name, "; ".join(steps))


def hooks(state_dir: Path, url: str) -> Iterator[Check]:
    """Check that hooks in folders of this host are those of this release; skipped where there are none.

    ``url`` is the configured address of the service.
    """
    server = served_by(state_dir)
    here = (server and server.url) or url
    try:
        with frozen(state_dir) as found:
            if found.schema_version != schema_of_release():
                return
        with closing(Storage.open(state_dir, SystemClock())) as storage:
            folders = [each for each in storage.repositories.all() if each.is_path]
            outdated = [each for each in folders if hook_is_outdated(Path(each.url), here)]
            owners = [storage.organizations.by_id(each.organization_id) for each in outdated]
    except StorageError:
        return  # the check of the database says why
    for each, owner in zip(outdated, owners, strict=True):
        detail = f"the hook of {each.url} is of a former release, or reports to another address than {here}"
        edit = (
            "ci-daemon",
            "--state-dir",
            str(state_dir),
            "repo",
            "edit",
            each.url,
            "--org",
            owner.slug if owner else "",
        )
        yield Check("hooks", ok=False, detail=detail, fix=shlex.join(edit), needed=False, root=False)
    if folders and not outdated:
        yield passed("hooks", "the hooks of repositories on this host are those of this release")


def clock_synchronization() -> Iterator[Check]:
    """Check that the clock is synchronized; skipped without systemd."""
    if not _SYSTEMD.is_dir() or shutil.which("timedatectl") is None:
        return
    if _output("timedatectl", "show", "--property=NTPSynchronized", "--value") == "yes":
        yield passed("time", "the clock is synchronized over the network")
        return
    detail = "the clock is not synchronized, and bills and tokens depend on it"
    yield Check("time", ok=False, detail=detail, fix="timedatectl set-ntp true", needed=False)


def unit(state_dir: Path, systemd: Path = _SYSTEMD) -> Iterator[Check]:
    """Check that the unit is enabled and runs; skipped without systemd, or for another state directory."""
    name = "service"
    if not systemd.is_dir() or state_dir != _STATE_DIR:
        return
    enabled, active = (_output("systemctl", verb, _UNIT) for verb in ("is-enabled", "is-active"))
    if enabled in {"", "not-found"}:
        detail = f"{_UNIT} is not installed, so the service does not start at boot"
        yield Check(name, ok=False, detail=detail, fix="ci-daemon install", needed=False, fixable=False)
    elif enabled != "enabled":
        detail = f"{_UNIT} is {enabled}: it does not start at boot"
        yield Check(name, ok=False, detail=detail, fix=f"systemctl enable {_UNIT}", needed=False)
    elif active != "active":
        detail = f"{_UNIT} is {active}"
        yield Check(name, ok=False, detail=detail, fix=f"systemctl start {_UNIT}", needed=False, fixable=False)
    else:
        yield passed(name, f"{_UNIT} runs, and starts at boot")


def _output(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip()
