"""`ci-daemon init`: create a state directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import storage
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Failure, Session, pass_session

if TYPE_CHECKING:
    from pathlib import Path

_ALLOWED_ENTRIES = {"ci-daemon.toml", "ci-daemon.lock", "images", "lost+found"}
"""Names that a directory may contain before it becomes a state directory."""


@click.command(cls=Command)
@pass_session
def init(session: Session) -> None:
    """Create the state directory: database, key of the secrets, folders for logs and sources.

    If it exists, nothing changes.
    """
    directory = session.state_dir
    created = _create(directory)
    session.audited = not created
    program = session.program
    text = f"created {directory}\nnext: `{program} image build`, then `{program} user add EMAIL --name NAME`"
    session.answer(
        {"state_dir": str(directory), "made": created}, text if created else f"{directory} is already a state directory"
    )


def _create(directory: Path) -> bool:
    """Create the state directory; return False if it existed. Raises Failure."""
    if directory.exists():
        if not directory.is_dir():
            raise Failure(f"{directory} is a file: give --state-dir a directory")
        foreign = sorted(entry.name for entry in directory.iterdir() if entry.name not in _ALLOWED_ENTRIES)
        if foreign and "ci-daemon.sqlite3" not in foreign:
            raise Failure(
                f"{directory} contains other files ({foreign[0]}): give --state-dir an empty or a new directory"
            )
    else:
        directory.mkdir(mode=0o700, parents=True)
    try:
        storage.Storage.create(directory, storage.SystemClock()).close()
    except storage.AlreadyInitialized:
        return False
    return True
