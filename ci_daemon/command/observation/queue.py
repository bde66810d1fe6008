"""`ci-daemon queue`: the jobs that wait for a VM, and the builds that wait as a whole."""

from __future__ import annotations

import click

from actors.scheduling import waiting_work
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.options import limit_option, watch_option
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.providers import pool_capacity
from storage import SystemClock, document_of

_EMPTY = "no job waits for a VM"
_COLUMNS = ("position", "build", "step", "priority", "since", "reason")


@click.command(cls=Command, reads=True)
@limit_option(10_000, default=50)
@watch_option
@pass_session
def queue(session: Session, *, limit: int, watch: bool) -> None:
    """List the jobs that wait for a VM, in the order in which they get one, with the reasons.

    Organizations take turns by their recent usage divided by their weight, so the order may change. In one, jobs let
    others go first for a while that depends on the priority of their build. Jobs that wait for
    an image or an approval, or back off before another attempt, come last and have no position. Builds that wait as a
    whole, for an approval or for their turn in a concurrency group, follow without position and step.
    """
    config, clock, part = session.config(), SystemClock(), range(limit)
    with session.storage_without_billing() as storage:

        def read() -> list[dict[str, object]]:
            running = served_by(session.state_dir) is not None
            host = pool_capacity(session.state_dir, config)
            work = waiting_work(storage, config.pool, host, clock, part, running=running)
            return [document_of(each) for each in work]

        if watch:
            session.watch_table(read, _COLUMNS, _EMPTY)
        else:
            session.table(read(), _COLUMNS, _EMPTY)
