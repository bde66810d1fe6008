"""`ci-daemon top`: a live view of running and waiting jobs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ci_daemon import overview
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.host.lock import served_by
from ci_daemon.providers import open_images, open_providers, pool_capacity
from ci_daemon.terminal.live import redraw
from ci_daemon.terminal.printable import printable
from ci_daemon.terminal.tables import print_renderable
from storage import SystemClock, duration, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.console import RenderableType

    from actors.vms import Providers, VmUse
    from ci_daemon.config import Config
    from storage import Storage

__all__ = ["top"]

_MAX_QUEUED = 10
_MIB = 2**20


@immutable
class _ScreenData:
    """The data of one screen."""

    at: datetime
    running: bool
    vms: list[tuple[overview.VmInUse, VmUse]]
    queue: list[overview.WaitingJob]
    queued: int


@click.command(cls=Command, reads=True)
@click.option("--once", is_flag=True, help="Print it once and return.")
@pass_session
def top(session: Session, *, once: bool) -> None:
    """Show the jobs in VMs and the next jobs; on a terminal every second, until q or Ctrl-C.

    CPU and memory are those of the VM's control group; without one they are unknown.
    """
    config = session.config()
    providers = open_providers(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
    with session.storage() as storage:
        if session.json:
            session.answer(_document(_read(session, storage, providers, config)), "")
        elif once or not sys.stdout.isatty():
            print_renderable(_screen(_read(session, storage, providers, config)))
        else:
            redraw(lambda: _screen(_read(session, storage, providers, config)))


def _read(session: Session, storage: Storage, providers: Providers, config: Config) -> _ScreenData:
    clock, running = SystemClock(), served_by(session.state_dir) is not None
    host = pool_capacity(session.state_dir, config)
    queue = overview.waiting_jobs(storage, config.pool, host, clock, _MAX_QUEUED, running=running)
    in_use = [(each, providers.named(each.provider).use(each.vm)) for each in overview.vms_in_use(storage)]
    return _ScreenData(clock.now(), running, in_use, queue, storage.queue.length())


def _screen(data: _ScreenData) -> RenderableType:
    service = "" if data.running else ", and the service does not run"
    head = f"{data.at:%H:%M:%S} UTC: VMs in use: {len(data.vms)}, jobs waiting: {data.queued}{service}"
    parts: list[RenderableType] = [Text(head, "bold")]
    if data.vms:
        parts += [Text(), _table(["build", "step", "state", "for", "CPU", "memory", "log", "VM"], _vm_rows(data))]
    if data.queue:
        rows = ([each.build, each.step, duration(_age(data, each.since)), each.reason] for each in data.queue)
        parts += [Text(), _table(["next", "step", "waits", "reason"], rows)]
    return Group(*parts)


def _vm_rows(data: _ScreenData) -> Iterator[list[str]]:
    for each, use in data.vms:
        cpu, memory = use.cpu_seconds, use.memory_bytes
        yield [
            each.build,
            each.step or "",
            each.state + (f", attempt {each.attempt}" if each.attempt > 1 else ""),
            duration(_age(data, each.since)),
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
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _age(data: _ScreenData, since: datetime) -> float:
    return (data.at - since).total_seconds()


def _document(data: _ScreenData) -> dict[str, object]:
    return {
        "at": timestamp(data.at),
        "served": data.running,
        "work": [{**asdict(each), "since": timestamp(each.since), **asdict(use)} for each, use in data.vms],
        "queued_jobs": data.queued,
        "queue": [{**asdict(each), "since": timestamp(each.since)} for each in data.queue],
    }
