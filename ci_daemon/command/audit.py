"""`ci-daemon audit`: what was done by hand."""

from __future__ import annotations

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command

__all__ = ["audit"]

_COLUMNS = ("at", "actor", "action", "subject", "note")


@click.command(cls=Command)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@pass_session
def audit(session: Session, *, limit: int) -> None:
    """List who forced what to end, and why, newest first."""
    with session.records() as storage:
        documents = [
            {
                "id": entry.uuid,
                "at": on_the_wire(entry.at),
                "actor": entry.actor,
                "action": entry.action,
                "subject": entry.subject,
                "note": entry.note,
            }
            for entry in storage.audit.page(limit, None).rows
        ]
    session.table(documents, _COLUMNS, "nothing was done by hand")
