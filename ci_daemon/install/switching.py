"""Switch between releases: the VMs of a stopped release keep running, and the next one adopts them."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_daemon.install import database, release, units
from ci_daemon.install.host import Host, InstallError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.install.release import Release

_FAILURES = (InstallError, KeyboardInterrupt, OSError)


def check(host: Host, wanted: Release) -> str | None:
    """Return a text about what starts the service as a release; None if it already runs as that release."""
    now = release.current(host)
    if now is None:
        return f"start {wanted}"
    if now != wanted:
        return f"back up the database, stop {now}, start {wanted}"
    if not units.match(host, wanted):
        return f"install the units of {wanted} and restart the service"
    return None if units.is_active(host) else f"start {wanted}"


def switch(host: Host, wanted: Release) -> None:
    """Run the service as a release; if that fails, or is interrupted, return to the previous one.

    Raises InstallError, which says why it failed and which release runs.
    """
    before = release.current(host)
    try:
        _start_new(host, before, wanted)
    except _FAILURES as error:
        reason = str(error) or "interrupted"
        if before is None or before == wanted:
            raise InstallError(f"{wanted} does not run: {reason}\nfix this, then run the same command again") from error
        with _ignore_interrupts():
            _start_earlier(host, before)
        raise InstallError(f"{wanted} does not run: {reason}\n{before} runs again, with its database") from error


def needs_old_database(host: Host, wanted: Release) -> bool:
    """Tell whether a rollback to a release must restore its copy of the database.

    All later changes are then lost. Raises InstallError if there is no copy.
    """
    if not database.has_newer_schema(host, wanted):
        return False
    if not wanted.database.exists():
        raise InstallError(
            f"{wanted} cannot read the database, and there is no older copy of it: restore an older backup with"
            " `ci-daemon restore`, or keep the current release"
        )
    return True


def roll_back(host: Host, wanted: Release) -> None:
    """Run the service as an earlier release; if that fails, return to the one that runs now.

    Raises InstallError, which says why it failed and which release runs.
    """
    now, restores_database = release.current(host), needs_old_database(host, wanted)
    try:
        units.stop(host)
        if now is not None:
            database.back_up(host, now.database)
        _start_earlier(host, wanted)
    except _FAILURES as error:
        if now is None:
            raise
        with _ignore_interrupts():
            units.stop(host)
            if restores_database and now.database.exists():
                database.restore(host, now)
            _set_release(host, now)
            units.start(host)
        raise InstallError(f"{wanted} does not run: {str(error) or 'interrupted'}\n{now} runs again") from error


def _start_earlier(host: Host, wanted: Release) -> None:
    """Start an earlier release, with its copy of the database if it cannot read today's."""
    units.stop(host)
    if needs_old_database(host, wanted):
        database.restore(host, wanted)
    _set_release(host, wanted)
    units.start(host)


def _start_new(host: Host, before: Release | None, wanted: Release) -> None:
    if before is not None:
        units.stop(host)
        if before != wanted and host.database.exists():
            database.back_up(host, before.database)
    _set_release(host, wanted)
    # Migrate while nothing serves, so that a failed migration is reported as one.
    host.call(wanted.command, "init")
    units.start(host)


def _set_release(host: Host, wanted: Release) -> None:
    release.set_current(host, wanted)
    units.install(host, wanted)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore the signals that interrupt, here and in child processes."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, signal.SIG_IGN) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
