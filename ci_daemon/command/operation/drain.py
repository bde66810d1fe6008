"""`ci-daemon drain` and `resume`: stop and resume giving VMs to jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.terminal.counts import counted

if TYPE_CHECKING:
    from storage import Storage

_POLL_SECONDS = 0.5


@click.command(cls=Command)
@click.option("--wait", is_flag=True, help="Wait until running jobs and renders have ended.")
@pass_session
def drain(session: Session, *, wait: bool) -> None:
    """Give no more VMs to jobs, until `ci-daemon resume`, also after a restart.

    Running jobs and renders continue. New builds are accepted, and their jobs wait. Nothing new is rendered: a build
    from source alone is refused at once. The service need not run.
    """
    with session.storage() as storage:
        changed = storage.switches.drain()
        if wait:
            _wait(session, storage)
        jobs, renders = _vms_in_use(storage)
    what = "drained" if changed else "was drained already"
    session.answer(
        {"drained": True, "changed": changed, "jobs_running": jobs, "renders_running": renders},
        f"{what}; VMs in use: {counted(jobs, 'job')}, {counted(renders, 'render')}",
    )


@click.command(cls=Command)
@pass_session
def resume(session: Session) -> None:
    """Give VMs to jobs again after `ci-daemon drain`. A running service does so within a second."""
    with session.storage() as storage:
        changed = storage.switches.resume()
    text = "jobs get VMs again" if changed else "the host was not drained: jobs get VMs"
    session.answer({"drained": False, "changed": changed}, text)


def _wait(session: Session, storage: Storage) -> None:
    """Wait until no job and no render has a VM.

    Raises Failure if no service runs, or if the host is resumed meanwhile.
    """
    while in_use := sum(_vms_in_use(storage)):
        if served_by(session.state_dir) is None:
            still = counted(in_use, "job or render still has", "jobs and renders still have")
            raise Failure(
                f"the host is drained, but {still} a VM and no service runs:"
                f" start it with {session.start_command}, or end the VMs with `ci-daemon lease kill --all`"
            )
        if storage.switches.drained_since() is None:
            raise Failure("the host was resumed in the meantime: drain it again")
        time.sleep(_POLL_SECONDS)


def _vms_in_use(storage: Storage) -> tuple[int, int]:
    """Return the number of jobs and of renders that have a VM; VMs on hold do not count."""
    held = {hold.lease_id for hold in storage.holds.open()}
    leases = [lease for lease in storage.leases.live() if lease.id not in held]
    return sum(each.job_id is not None for each in leases), sum(each.build_id is not None for each in leases)
