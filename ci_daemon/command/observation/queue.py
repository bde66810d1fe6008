"""`ci-daemon queue`: the jobs that wait for a VM."""

from __future__ import annotations

from dataclasses import asdict

import click

from ci_daemon import overview
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.command.support.texts import watch_option
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.host.lock import served_by
from storage import SystemClock

__all__ = ["queue"]

_EMPTY = "no job waits for a VM"
_COLUMNS = ("position", "build", "step", "since", "reason")


@click.command(cls=Command, reads=True)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="The maximum number to list."
)
@watch_option
@pass_session
def queue(session: Session, *, limit: int, watch: bool) -> None:
    """List the jobs that wait for a VM, in the order in which they get one, with the reasons.

    Organizations take turns by their recent usage divided by their weight, so the order may change. Jobs that wait for
    an image or back off before another attempt come last and have no position.
    """
    pool = session.config().pool
    with session.storage_without_billing() as storage:

        def read() -> list[dict[str, object]]:
            running = served_by(session.state_dir) is not None
            waiting = overview.waiting_jobs(storage, pool, SystemClock(), limit, running=running)
            return [_document(each) for each in waiting]

        if watch:
            session.watch_table(read, _COLUMNS, _EMPTY)
        else:
            session.table(read(), _COLUMNS, _EMPTY)


def _document(each: overview.WaitingJob) -> dict[str, object]:
    return {**asdict(each), "since": timestamp(each.since)}
