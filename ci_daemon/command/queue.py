"""`ci-daemon queue`: who waits for a VM."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.lock import served_by
from ci_daemon.overview import waiting
from storage import SystemClock

if TYPE_CHECKING:
    from ci_daemon.overview import WaitingJob

__all__ = ["queue"]

_COLUMNS = ("position", "build", "step", "since", "reason")


@click.command(cls=Command, short_help="List the jobs that wait for a VM, with the reason.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most.")
@pass_session
def queue(session: Session, *, limit: int) -> None:
    """List the jobs that wait for a VM, in the order in which they get one, and say what keeps each from it.

    Organizations take turns by what they used of late over their weight, so that the order may change. Jobs that wait
    before another attempt come last and have no position.
    """
    pool, served = session.config().pool, served_by(session.state_dir) is not None
    with session.storage() as storage:
        found = waiting(storage, pool, SystemClock(), limit, served=served)
    session.table([_document(each) for each in found], _COLUMNS, "no job waits for a VM")


def _document(each: WaitingJob) -> dict[str, object]:
    return {**asdict(each), "since": on_the_wire(each.since)}
