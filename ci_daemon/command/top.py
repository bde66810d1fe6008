"""`ci-daemon top`: a live view of running and waiting jobs."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.lock import served_by
from ci_daemon.overview import waiting, work
from ci_daemon.providers import open_images, open_provider
from ci_daemon.terminal.cells import on_one_line
from ci_daemon.terminal.spans import span
from ci_daemon.terminal.tables import print_picture
from ci_daemon.terminal.watching import redraw
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.console import RenderableType

    from actors.vms import Provider, VmUse
    from ci_daemon.config import Config
    from ci_daemon.overview import WaitingJob, Work
    from storage import Storage

__all__ = ["top"]

_QUEUED = 10
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Picture:
    """The data of one screen."""

    at: datetime
    served: bool
    work: list[tuple[Work, VmUse]]
    queue: list[WaitingJob]
    queued: int


@click.command(cls=Command, reads=True)
@click.option("--once", is_flag=True, help="Print it once and return.")
@pass_session
def top(session: Session, *, once: bool) -> None:
    """Show the jobs in VMs and the next jobs; on a terminal every second, until q or Ctrl-C.

    CPU and memory are those of the VM's control group; without one they are unknown.
    """
    config = session.config()
    provider = open_provider(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
    with session.storage() as storage:
        if session.json:
            session.answer(_document(_look(session, storage, provider, config)), "")
        elif once or not sys.stdout.isatty():
            print_picture(_shown(_look(session, storage, provider, config)))
        else:
            redraw(lambda: _shown(_look(session, storage, provider, config)))


def _look(session: Session, storage: Storage, provider: Provider, config: Config) -> _Picture:
    clock, served = SystemClock(), served_by(session.state_dir) is not None
    queue = waiting(storage, config.pool, clock, _QUEUED, served=served)
    at_work = [(each, provider.use(each.vm)) for each in work(storage)]
    return _Picture(clock.now(), served, at_work, queue, storage.queue.length())


def _shown(picture: _Picture) -> RenderableType:
    service = "" if picture.served else ", and the service does not run"
    head = f"{picture.at:%H:%M:%S} UTC: {len(picture.work)} VMs at work, {picture.queued} jobs wait{service}"
    parts: list[RenderableType] = [Text(head, "bold")]
    if picture.work:
        parts += [Text(), _table(["build", "step", "state", "for", "CPU", "memory", "log", "VM"], _work_rows(picture))]
    if picture.queue:
        rows = ([each.build, each.step, span(_age(picture, each.since)), each.reason] for each in picture.queue)
        parts += [Text(), _table(["next", "step", "waits", "reason"], rows)]
    return Group(*parts)


def _work_rows(picture: _Picture) -> Iterator[list[str]]:
    for each, use in picture.work:
        cpu, memory = use.cpu_seconds, use.memory_bytes
        yield [
            each.build,
            each.step or "",
            each.state + (f", attempt {each.attempt}" if each.attempt > 1 else ""),
            span(_age(picture, each.since)),
            "" if cpu is None else f"{cpu:.1f} s",
            "" if memory is None else f"{memory // _MIB} MiB",
            f"{each.log_bytes} B" if each.log_bytes < _MIB else f"{each.log_bytes // _MIB} MiB",
            each.vm,
        ]


def _table(columns: list[str], rows: Iterator[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(on_one_line(cell)) for cell in row))
    return table


def _age(picture: _Picture, since: datetime) -> float:
    return (picture.at - since).total_seconds()


def _document(picture: _Picture) -> dict[str, object]:
    return {
        "at": on_the_wire(picture.at),
        "served": picture.served,
        "work": [{**asdict(each), "since": on_the_wire(each.since), **asdict(use)} for each, use in picture.work],
        "queued_jobs": picture.queued,
        "queue": [{**asdict(each), "since": on_the_wire(each.since)} for each in picture.queue],
    }
