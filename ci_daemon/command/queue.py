"""`ci-daemon queue`: the jobs that wait for a VM."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.command.texts import watch_option
from ci_daemon.lock import served_by
from ci_daemon.overview import waiting
from storage import SystemClock

if TYPE_CHECKING:
    from ci_daemon.overview import WaitingJob

__all__ = ["queue"]

_NOBODY = "no job waits for a VM"
_COLUMNS = ("position", "build", "step", "since", "reason")


@click.command(cls=Command, reads=True)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most.")
@watch_option
@pass_session
def queue(session: Session, *, limit: int, watch: bool) -> None:
    """List the jobs that wait for a VM, in the order in which they get one, with the reasons.

    Organizations take turns by their recent usage divided by their weight, so the order may change. Jobs that wait for
    an image or back off before another attempt come last and have no position.
    """
    pool = session.config().pool
    with session.records() as storage:

        def look() -> list[dict[str, object]]:
            served = served_by(session.state_dir) is not None
            return [_document(each) for each in waiting(storage, pool, SystemClock(), limit, served=served)]

        if watch:
            session.watch_table(look, _COLUMNS, _NOBODY)
        else:
            session.table(look(), _COLUMNS, _NOBODY)


def _document(each: WaitingJob) -> dict[str, object]:
    return {**asdict(each), "since": on_the_wire(each.since)}
