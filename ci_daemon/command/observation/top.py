"""`ci-daemon top`: a live view of running and waiting jobs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.text import Text

from actors.scheduling import jobs_in_line
from ci_daemon import overview
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.names import short_id
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.providers import open_images, open_providers, pool_capacity
from ci_daemon.terminal.live import redraw
from ci_daemon.terminal.tables import DocumentTable, print_renderable
from storage import SystemClock, immutable, timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

    from actors.scheduling import WaitingWork
    from actors.vms import Providers, VmUse
    from ci_daemon.config import Config
    from storage import Storage

_MAX_QUEUED = 10
_MIB = 2**20
_WORK_COLUMNS = ("build", "step", "state", "age_seconds", "CPU", "memory", "log", "VM")
_QUEUE_COLUMNS = ("build", "step", "since", "reason")


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

        def read() -> _Overview:
            return _read(session, storage, providers, config)

        if session.json:
            session.answer(read().document(), "")
        elif once or not sys.stdout.isatty():
            print_renderable(_screen(read()))
        else:
            redraw(lambda: _screen(read()))


@immutable
class _Overview:
    """The work of VMs and the next jobs, at one time."""

    at: datetime
    served: bool
    work: list[tuple[overview.VmInUse, VmUse]]
    queue: list[WaitingWork]
    queued_jobs: int

    def document(self) -> dict[str, object]:
        """Return it as a JSON document."""
        return {
            "at": timestamp(self.at),
            "served": self.served,
            "work": [{**asdict(each), "since": timestamp(each.since), **asdict(use)} for each, use in self.work],
            "queued_jobs": self.queued_jobs,
            "queue": _queue(self),
        }


def _read(session: Session, storage: Storage, providers: Providers, config: Config) -> _Overview:
    clock, served = SystemClock(), served_by(session.state_dir) is not None
    host = pool_capacity(session.state_dir, config)
    waiting = jobs_in_line(storage, config.pool, host, clock, _MAX_QUEUED, running=served)
    work = [(each, providers.named(each.provider).use(each.vm)) for each in overview.vms_in_use(storage)]
    return _Overview(clock.now(), served, work, waiting, storage.queue.length())


def _screen(data: _Overview) -> RenderableType:
    service = "" if data.served else ", and the service does not run"
    head = f"{data.at:%H:%M:%S} UTC: VMs in use: {len(data.work)}, jobs waiting: {data.queued_jobs}{service}"
    parts: list[RenderableType] = [Text(head, "bold")]
    if data.work:
        parts += [Text(), DocumentTable([_work(data, each, use) for each, use in data.work], _WORK_COLUMNS)]
    if data.queue:
        parts += [Text("\nnext:", "bold"), DocumentTable(_queue(data), _QUEUE_COLUMNS)]
    return Group(*parts)


def _work(data: _Overview, each: overview.VmInUse, use: VmUse) -> dict[str, object]:
    return {
        "build": each.build,
        "step": each.step,
        "state": each.state + (f", attempt {each.attempt}" if each.attempt > 1 else ""),
        "age_seconds": (data.at - each.since).total_seconds(),
        "CPU": None if use.cpu_seconds is None else f"{use.cpu_seconds:.1f} s",
        "memory": None if use.memory_bytes is None else f"{use.memory_bytes // _MIB} MiB",
        "log": f"{each.log_bytes} B" if each.log_bytes < _MIB else f"{each.log_bytes // _MIB} MiB",
        "VM": short_id(each.vm),
    }


def _queue(data: _Overview) -> list[dict[str, object]]:
    return [{**asdict(each), "since": timestamp(each.since)} for each in data.queue]
