"""Switch between releases: the service stops, its VMs run on, and the next release takes them over."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_daemon.install import database, release, units
from ci_daemon.install.host import Host, InstallError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.install.release import Release

__all__ = ["lacking", "loses", "roll_back", "to"]

_FAILED = (InstallError, KeyboardInterrupt, OSError)


def lacking(host: Host, wanted: Release) -> str | None:
    """Return a text that says what to do to run the service as a release; None if it does."""
    now = release.current(host)
    if now is None:
        return f"start {wanted}"
    if now != wanted:
        return f"keep the database, stop {now}, start {wanted}"
    if not units.are_of(host, wanted):
        return f"place the units of {wanted} and start it again"
    return None if units.is_active(host) else f"start {wanted}"


def to(host: Host, wanted: Release) -> None:
    """Run the service as a release; if that fails, or is interrupted, return to the previous one.

    Raises InstallError, which says why it failed and which release runs.
    """
    before = release.current(host)
    try:
        _change(host, before, wanted)
    except _FAILED as fault:
        reason = str(fault) or "interrupted"
        if before is None or before == wanted:
            raise InstallError(
                f"{wanted} does not run: {reason}\nmend that, then run the same command again"
            ) from fault
        with _nothing_between():
            _return(host, before)
        raise InstallError(f"{wanted} does not run: {reason}\n{before} runs again, with its database") from fault


def loses(host: Host, wanted: Release) -> bool:
    """Tell whether a rollback to a release must put back its copy of the database.

    All that was written since is then lost. Raises InstallError if there is no copy.
    """
    if not database.is_too_new_for(host, wanted):
        return False
    if not wanted.database.exists():
        raise InstallError(
            f"{wanted} cannot read the database, and no copy from its time is kept: restore a backup of that time"
            " with `ci-daemon restore`, or stay"
        )
    return True


def roll_back(host: Host, wanted: Release) -> None:
    """Run the service as an earlier release; if that fails, return to the one that runs now.

    Raises InstallError, which says why it failed and which release runs.
    """
    now, takes_database = release.current(host), loses(host, wanted)
    try:
        units.stop(host)
        if now is not None:
            database.keep_for(host, now)
        _return(host, wanted)
    except _FAILED as fault:
        if now is None:
            raise
        with _nothing_between():
            units.stop(host)
            if takes_database and now.database.exists():
                database.put_back_of(host, now)
            _place(host, now)
            units.start(host)
        raise InstallError(f"{wanted} does not run: {str(fault) or 'interrupted'}\n{now} runs again") from fault


def _return(host: Host, wanted: Release) -> None:
    """Start an earlier release, with its copy of the database if it cannot read today's."""
    units.stop(host)
    if loses(host, wanted):
        database.put_back_of(host, wanted)
    _place(host, wanted)
    units.start(host)


def _change(host: Host, before: Release | None, wanted: Release) -> None:
    if before is not None:
        units.stop(host)
        if before != wanted and host.database.exists():
            database.keep_for(host, before)
    _place(host, wanted)
    # Migrate while nothing serves, so that a failed migration is reported as one.
    host.ask(wanted.command, "init")
    units.start(host)


def _place(host: Host, wanted: Release) -> None:
    release.point_to(host, wanted)
    units.place(host, wanted)


@contextmanager
def _nothing_between() -> Iterator[None]:
    """Ignore signals that would interrupt, here and in the programs that are run."""
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, signal.SIG_IGN) for each in signs}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
