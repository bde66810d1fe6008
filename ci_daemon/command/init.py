"""`ci-daemon init`: create a state directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import Command
from storage import AlreadyInitialized, Storage, SystemClock

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["init"]

_WELCOME = {"ci-daemon.toml", "ci-daemon.lock", "images", "lost+found"}
"""Names that a directory may contain before it becomes a state directory."""


@click.command(cls=Command)
@pass_session
def init(session: Session) -> None:
    """Create the state directory: database, key of the secrets, folders for logs and sources.

    If it exists, nothing changes.
    """
    directory = session.state_dir
    made = _make(directory)
    session.audited = not made
    text = f"made {directory}; next: `ci-daemon image build`, then `ci-daemon user add EMAIL --name NAME`"
    session.answer(
        {"state_dir": str(directory), "made": made}, text if made else f"{directory} is a state directory already"
    )


def _make(directory: Path) -> bool:
    """Create the state directory; return False if it existed. Raises Failure."""
    if directory.exists():
        if not directory.is_dir():
            raise Failure(f"{directory} is a file: give --state-dir a directory")
        foreign = sorted(entry.name for entry in directory.iterdir() if entry.name not in _WELCOME)
        if foreign and "ci-daemon.sqlite3" not in foreign:
            raise Failure(
                f"{directory} holds other things ({foreign[0]}): give --state-dir an empty or a new directory"
            )
    else:
        directory.mkdir(mode=0o700, parents=True)
    try:
        Storage.create(directory, SystemClock()).close()
    except AlreadyInitialized:
        return False
    return True
