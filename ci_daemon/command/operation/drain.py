"""`ci-daemon drain` and `resume`: stop and resume giving VMs to jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from api.operations import queue as operations
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of

if TYPE_CHECKING:
    from api.doors import LocalDoor

_POLL_SECONDS = 0.5


@click.command(cls=Command)
@click.option("--wait", is_flag=True, help="Wait until running jobs and renders have ended.")
@pass_session
def drain(session: Session, *, wait: bool) -> None:
    """Give no more VMs to jobs, until `ci-daemon resume`, also after a restart.

    Running jobs and renders continue. New builds are accepted, and their jobs wait. Nothing new is rendered: a build
    from source alone is refused at once. The service need not run.
    """
    with session.owners_door() as door:
        begun = door.perform(operations.drain, {})
        now = _wait(session, door) if wait else begun
    what = "drained" if begun.changed else "was drained already"
    session.answer(
        {**document_of(now), "changed": begun.changed},
        f"{what}; VMs in use: {counted(now.jobs_running, 'job')}, {counted(now.renders_running, 'render')}",
    )


@click.command(cls=Command)
@pass_session
def resume(session: Session) -> None:
    """Give VMs to jobs again after `ci-daemon drain`. A running service does so within a second."""
    with session.owners_door() as door:
        resumed = door.perform(operations.resume, {})
    text = "jobs get VMs again" if resumed.changed else "the host was not drained: jobs get VMs"
    session.answer(document_of(resumed), text)


def _wait(session: Session, door: LocalDoor) -> operations.Drain:
    """Wait until no job and no render has a VM.

    Raises Failure if no service runs, or if the host is resumed meanwhile.
    """
    while in_use := (now := door.perform(operations.get_drain, {})).jobs_running + now.renders_running:
        if not now.serves:
            still = counted(in_use, "job or render still has", "jobs and renders still have")
            raise Failure(
                f"the host is drained, but {still} a VM and no service runs:"
                f" start it with {session.start_command}, or end the VMs with `ci-daemon lease kill --all`"
            )
        if not now.drained:
            raise Failure("the host was resumed in the meantime: drain it again")
        time.sleep(_POLL_SECONDS)
    return now
