"""`ci-daemon install` and `uninstall`: the service as a systemd unit on this host."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon.command import auditing
from ci_daemon.command.person import email_address, shown_name
from ci_daemon.command.session import DEFAULT_STATE_DIR, Failure, Session, pass_session
from ci_daemon.command.style import CallersCommand
from ci_daemon.install import (
    Done,
    Host,
    InstallError,
    Newcomer,
    Release,
    carry_out,
    outlook,
    release,
    removal,
    source,
    state,
    steps,
    switching,
    units,
    welcome,
)
from ci_daemon.install.host import environment
from ci_daemon.lock import served_by

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["install", "uninstall"]


@click.command(cls=CallersCommand)
@click.option("--owner", type=email_address, metavar="EMAIL", help="Who gets the first organization and API key.")
@click.option("--name", type=shown_name, metavar="NAME", help="The owner's name; by default what is before the @.")
@click.option("--from", "origin", metavar="SOURCE", help="A checkout, a wheel, or what else pip takes as ci-daemon.")
@click.option("--rollback", is_flag=True, help="Go back to the release before this one.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--of-this-release", "arrived", is_flag=True, hidden=True)
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
    arrived: bool,
) -> None:
    """Install the service: system user, /opt/ci-daemon, configuration, unit, image, first owner.

    Run again, it upgrades the service and does only what is missing. A new release is made next to the old one while
    that serves; then the service stops for seconds, the database is copied, and jobs run on in their VMs. If the new
    release does not start, the previous one is started again; --rollback goes back at any later time.

    SOURCE is by default the one that this command was installed from.
    """
    host = _host(session)
    with _alone(host):
        if rollback:
            _roll_back(session, host, yes=yes)
            return
        # Report errors in the owner's files before anything changes.
        state.settings(host)
        units.refuse_override(host)
        newcomer = None if owner is None else Newcomer(owner, name or owner.partition("@")[0])
        if arrived:
            _go_on(session, host, newcomer)
            return
        wanted = source.resolved(origin or source.of_this_program())
        if dry_run:
            session.audited = True
            planned = outlook(host, wanted)
            session.answer({"would": planned}, "\n".join(f"would {each}" for each in planned) or "nothing to do")
            return
        if newcomer is None and not host.database.exists():
            newcomer = _asked()
        _tell(f"making a release of {wanted}, which takes a minute")
        _hand_over(session, release.make(host, wanted), newcomer)


@click.command(cls=CallersCommand)
@click.option("--data", is_flag=True, help="Remove users, builds, logs, secrets and the configuration too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def uninstall(session: Session, *, data: bool, yes: bool) -> None:
    """Stop the service and its VMs, and remove the program and units.

    Without --data the state directory, the configuration, the user and drop-ins of the unit stay, and `ci-daemon
    install` uses them again.
    """
    host = _host(session)
    found = [str(each) for each in removal.service_files(host)]
    kept = f"{host.state} and {host.configuration.parent}"
    if not yes:
        _confirm(f"This ends the service and every job that runs, and removes {', '.join(found) or 'nothing'}.")
        if data:
            _confirm(f"This also removes {kept}, for good: users, builds, logs, secrets.")
    auditing.record(click.get_current_context(), session)
    with _alone(host):
        removal.remove_service(host)
        if data:
            removal.remove_data(host)
    fate = "is gone" if data else "stays"
    session.answer({"removed": found, "data_removed": data}, f"the service is gone; what was in {kept} {fate}")


def _go_on(session: Session, host: Host, newcomer: Newcomer | None) -> None:
    """Install the release that this program belongs to."""
    wanted = Release(Path(sys.prefix))
    done: list[Done] = []
    for each in carry_out(steps(host, wanted)):
        _tell(f"ok    {each.name}" if each.did is None else f"done  {each.name}: {each.did}")
        done.append(each)
    serving = served_by(host.state)
    url = serving and serving.url
    owner = None
    if welcome.is_needed(host, wanted):
        owner = welcome.welcome(host, wanted, newcomer or _asked())
    document = {
        "release": wanted.path.name,
        "version": wanted.version,
        "steps": [{"name": each.name, "did": each.did} for each in done],
        "url": url,
        "owner": owner,
    }
    lines = [f"ci-daemon {wanted} serves on {url}"]
    if owner is not None:
        lines += [
            f"{owner['email']} owns the organization {owner['organization']}",
            f"API key, shown this once: {owner['token']}",
            f"build a tree: CI_DAEMON_URL={url} CI_DAEMON_TOKEN=… ci-daemon submit DIR",
        ]
    session.answer(document, "\n".join(lines))


def _roll_back(session: Session, host: Host, *, yes: bool) -> None:
    now, wanted = release.current(host), release.other(host)
    if now is None or wanted is None:
        raise Failure("there is no release to go back to: the one before the current is kept from the first upgrade on")
    lost = None
    if switching.loses(host, wanted):
        lost = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wanted.database.stat().st_mtime))
        warning = (
            f"{wanted} cannot read the database of {now}, so it gets the one that it left at {lost}:"
            " users, builds and charges made since are gone from it."
        )
        if not yes:
            _confirm(warning)
    switching.roll_back(host, wanted)
    session.answer(
        {"release": wanted.path.name, "version": wanted.version, "database_of": lost},
        f"ci-daemon {wanted} serves again" + (f", with the database of {lost}" if lost else ""),
    )


def _host(session: Session) -> Host:
    """Return this host. Raises Failure if this caller cannot install on it."""
    if os.geteuid() != 0:
        raise Failure("this takes root: run `sudo ci-daemon install …` or `sudo ./install.sh`")
    if session.state_dir != DEFAULT_STATE_DIR:
        raise Failure(
            f"an installed service keeps its state in {DEFAULT_STATE_DIR}: leave out --state-dir and"
            " CI_DAEMON_STATE_DIR; that folder may be a mount or a link"
        )
    host = Host()
    units.require_systemd(host)
    return host


@contextmanager
def _alone(host: Host) -> Iterator[None]:
    """Exclude other installations, and turn SIGTERM and SIGHUP into an interrupt, which cleans up."""
    os.umask(0o022)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(sign) is not signal.SIG_IGN:
            signal.signal(sign, signal.default_int_handler)
    with host.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InstallError("another installation is at work on this host: wait for its end") from None
        yield


def _hand_over(session: Session, made: Release, newcomer: Newcomer | None) -> None:
    """Replace this process by the new release's own `install`, which continues."""
    words = ["--owner", newcomer.email, "--name", newcomer.name] if newcomer else []
    words += ["--json"] if session.json else []
    sys.stderr.flush()
    os.execve(made.command, [str(made.command), "install", "--of-this-release", *words], environment())  # noqa: S606 - argv of our own


def _asked() -> Newcomer:
    """Prompt for the service's owner. Raises Failure without a terminal."""
    if not sys.stdin.isatty():
        raise Failure("nobody can use the service yet: give --owner EMAIL, who gets the first API key")
    email = click.prompt("E-mail address of the service's owner", value_proc=email_address, err=True)
    return Newcomer(email, click.prompt("Name", default=email.partition("@")[0], value_proc=shown_name, err=True))


def _confirm(what: str) -> None:
    if not sys.stdin.isatty():
        raise Failure(f"{what} Give --yes where nobody is there to be asked")
    click.confirm(f"{what} Go on?", abort=True, err=True)


def _tell(line: str) -> None:
    click.echo(line, err=True)
