"""`ci-daemon install` and `uninstall`: the service as a systemd unit on this host."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from contextlib import contextmanager
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support import auditing
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.input import confirm
from ci_daemon.command.support.options import display_name, email_address
from ci_daemon.command.support.session import DEFAULT_STATE_DIR, Failure, Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.install import (
    Host,
    InstallError,
    InstallStep,
    NewOwner,
    Release,
    StepResult,
    first_owner,
    missing_parts,
    packaged,
    plan,
    release,
    removal,
    run_steps,
    source,
    state,
    steps,
    switching,
    units,
)
from ci_daemon.install.host import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@click.command(cls=CallerCommand)
@click.option(
    "--owner",
    type=email_address,
    metavar="EMAIL",
    help="The first owner, who gets an organization and an API key.",
)
@click.option("--name", type=display_name, metavar="NAME", help="The owner's name; by default the part before the @.")
@click.option("--from", "origin", metavar="SOURCE", help="A checkout, a wheel, or another requirement for pip.")
@click.option("--rollback", is_flag=True, help="Return to the previous release.")
@click.option("--dry-run", is_flag=True, help="Print the steps, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--of-this-release", "continuing", is_flag=True, hidden=True)
@pass_session
def install(
    session: Session,
    *,
    owner: str | None,
    name: str | None,
    origin: str | None,
    rollback: bool,
    dry_run: bool,
    yes: bool,
    continuing: bool,
) -> None:
    """Install the service: system user, /opt/ci-daemon, configuration, unit, image, first owner.

    An installed service is upgraded, and only missing parts are added. The new release is created while the old one
    serves; then the service stops for seconds and the database is copied, while jobs continue in their VMs. If the new
    release does not start, the previous one is started again; --rollback returns to it at any later time.

    By default, SOURCE is what this command was installed from. After the installation of the Debian package, this adds
    what the package does not: image and first owner.
    """
    host = _host(session)
    with _exclusive(host):
        if packaged.is_packaged() and (origin or rollback):
            raise Failure("this program belongs to a package: `apt-get install` changes its version")
        if rollback:
            _roll_back(session, host, yes=yes)
            return
        # Report errors in the owner's files before anything changes.
        state.settings(host)
        units.refuse_override(host)
        new_owner = None if owner is None else NewOwner(owner, name or owner.partition("@")[0])
        if packaged.is_packaged():
            remaining = packaged.completing_steps(host)
            if dry_run:
                _answer_plan(session, missing_parts(remaining))
            else:
                _finish(session, host, packaged.RELEASE, remaining, new_owner)
            return
        if continuing:
            own = Release(Path(sys.prefix))
            _finish(session, host, own, steps(host, own), new_owner)
            return
        wanted = source.resolve(origin or source.of_running_program())
        if dry_run:
            _answer_plan(session, plan(host, wanted))
            return
        if new_owner is None and not host.database.exists():
            new_owner = _prompt_new_owner()
        _report(f"creating a release from {wanted}, which takes a minute")
        _exec_release(session, release.create(host, wanted), new_owner)


@click.command(cls=CallerCommand)
@click.option("--data", is_flag=True, help="Remove users, builds, logs, secrets and the configuration too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def uninstall(session: Session, *, data: bool, yes: bool) -> None:
    """Stop the service and its VMs, and remove the program and units.

    Without --data the state directory, the configuration, the user and drop-ins of the unit are kept for the next
    `ci-daemon install`.
    """
    host = _host(session)
    if packaged.is_packaged():
        raise Failure(
            "the service was installed as a package: `apt-get remove ci-daemon` removes it, and `apt-get purge"
            " ci-daemon` also its users, builds, logs, secrets and configuration"
        )
    program = removal.service_files(host)
    own = removal.data_files(host) if data else {}
    if not yes:
        _report("\n".join(["to be removed:", *_explained(program)]))
        confirm("This stops the service and all running jobs, and removes the program. Continue?")
        if data:
            _report("\n".join(["to be removed permanently:", *_explained(own)]))
            confirm("This removes all data of the service too, and its user. Continue?")
    auditing.audit_command(click.get_current_context(), session)
    with _exclusive(host):
        for step in removal.removal_steps(host, data=data):
            _report(step.title)
            step.apply()
    removed = {path: what for path, what in {**program, **own}.items() if not lexists(path)}
    kept = removal.kept_parts(host, data=data)
    session.answer(
        {"removed": [*map(str, removed)], "data_removed": data, "kept": kept},
        "\n".join(["removed:", *_explained(removed), "kept:", *_explained(kept)]),
    )


def _explained(parts: Mapping[Path, str] | Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each part of an installation: its path or name, and what is said of it."""
    width = max(map(len, map(str, parts)), default=0)
    for part, text in parts.items():
        yield f"  {part!s:{width}}  {text}"


def _answer_plan(session: Session, planned: list[str]) -> None:
    session.audited = True
    session.answer({"would": planned}, "\n".join(f"would {each}" for each in planned) or "nothing to do")


def _finish(
    session: Session, host: Host, wanted: Release, wanted_steps: list[InstallStep], new_owner: NewOwner | None
) -> None:
    """Install the release that this program belongs to, and answer with the first owner's access."""
    done: list[StepResult] = []
    for each in run_steps(wanted_steps):
        _report(str(each))
        done.append(each)
    serving = served_by(host.state)
    url = serving and serving.url
    owner = None
    if first_owner.is_needed(host, wanted):
        owner = first_owner.create(host, wanted, new_owner or _prompt_new_owner())
    document = {
        "release": wanted.path.name,
        "version": wanted.version,
        "steps": [{"name": each.name, "did": each.action} for each in done],
        "url": url,
        "owner": owner,
    }
    lines = [f"ci-daemon {wanted} serves on {url}"]
    if owner is not None:
        lines += [
            f"{owner['email']} owns the organization {owner['organization']}",
            f"API key, shown only once: {owner['token']}",
            f"to sign in as {owner['email']}, once, within 15 minutes: {owner['link']}",
            f"build a tree: CI_DAEMON_URL={url} CI_DAEMON_TOKEN=… ci-daemon submit DIR",
        ]
    session.answer(document, "\n".join(lines))


def _roll_back(session: Session, host: Host, *, yes: bool) -> None:
    now, wanted = release.current(host), release.previous(host)
    if now is None or wanted is None:
        raise Failure("there is no release to return to: each upgrade keeps the previous one")
    copied_at = None
    if switching.needs_old_database(host, wanted):
        copied_at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wanted.database.stat().st_mtime))
        warning = (
            f"{wanted} cannot read the database of {now}, so its copy from {copied_at} is restored:"
            " users, builds and charges since then are lost."
        )
        if not yes:
            confirm(f"{warning} Continue?")
    switching.roll_back(host, wanted)
    session.answer(
        {"release": wanted.path.name, "version": wanted.version, "database_of": copied_at},
        f"ci-daemon {wanted} serves again" + (f", with the database of {copied_at}" if copied_at else ""),
    )


def _host(session: Session) -> Host:
    """Return this host. Raises Failure if this caller cannot install on it."""
    if os.geteuid() != 0:
        raise Failure(f"this needs root: run `sudo {click.get_current_context().command_path} …`")
    if session.state_dir != DEFAULT_STATE_DIR:
        raise Failure(
            f"an installed service keeps its state in {DEFAULT_STATE_DIR}: remove --state-dir and"
            " CI_DAEMON_STATE_DIR; that folder may be a mount or a link"
        )
    host = Host()
    units.require_systemd(host)
    return host


@contextmanager
def _exclusive(host: Host) -> Iterator[None]:
    """Exclude other installations, and turn SIGTERM and SIGHUP into an interrupt, which cleans up."""
    os.umask(0o022)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    with host.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InstallError("another installation is running on this host: wait until it ends") from None
        yield


def _exec_release(session: Session, created: Release, new_owner: NewOwner | None) -> None:
    """Replace this process by the new release's own `install`, which continues."""
    words = ["--owner", new_owner.email, "--name", new_owner.name] if new_owner else []
    words += ["--json"] if session.json else []
    sys.stderr.flush()
    os.execve(created.command, [str(created.command), "install", "--of-this-release", *words], environment())  # noqa: S606 - argv of our own


def _prompt_new_owner() -> NewOwner:
    """Prompt for the service's owner. Raises Failure without a terminal."""
    if not sys.stdin.isatty():
        raise Failure("the service has no user yet: give --owner EMAIL, who gets the first API key")
    email = click.prompt("E-mail address of the service's owner", value_proc=email_address, err=True)
    return NewOwner(email, click.prompt("Name", default=email.partition("@")[0], value_proc=display_name, err=True))


def _report(line: str) -> None:
    click.echo(line, err=True)
