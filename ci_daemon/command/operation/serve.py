"""`ci-daemon serve`: run the service."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

import actors
import api
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.host import journal
from ci_daemon.host.notify import Notifier

if TYPE_CHECKING:
    from ci_daemon.config import Config

_NEW_OBJECTS = 20_000
"""The number of new objects after which a service looks for garbage."""

_OLDEST = 2
"""The generation of a whole collection."""


@click.command(cls=Command, reads=True)
@click.option(
    "--listen", metavar="HOST:PORT", help="The address to use instead of http.listen; port 0 is any free port."
)
@click.option(
    "--wait", is_flag=True, help="On SIGTERM or Ctrl-C, wait for running jobs; a second signal ends the wait."
)
@pass_session
def serve(session: Session, *, listen: str | None, wait: bool) -> int:
    """Run the service in the foreground.

    On SIGTERM or Ctrl-C it accepts no more builds and exits. Without --wait, jobs continue in their VMs, and the next
    start adopts them.
    """
    gc.disable()  # what is imported stays; to look for garbage in it takes long, at the start as at the end
    from ci_daemon import service  # noqa: PLC0415 - it imports the whole service, which the help does not need

    set_imports_aside()
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()

    def load() -> Config:
        config = session.config()
        if session.quiet:
            config = replace(config, journal=replace(config.journal, level="error"))
        return config if listen is None else replace(config, http=replace(config.http, listen=listen))

    try:
        config = load()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    journal.set_up(config.journal, api.RequestIdFilter(), actors.LogContextFilter())
    return service.serve(session.state_dir, load, Notifier.from_environment(os.environ), wait=wait)


def set_imports_aside() -> None:
    """Keep the garbage collector from what is imported, now and later, for that stays.

    Much is imported at the first request for it, and a whole collection would hold the interpreter for 30 ms to look at
    it. It is set aside after the next whole collection, which leaves no garbage in it.
    """
    gc.freeze()
    modules = len(sys.modules)

    def set_new_aside(phase: str, info: dict[str, int]) -> None:
        nonlocal modules
        if phase == "stop" and info["generation"] == _OLDEST and len(sys.modules) > modules:
            modules = len(sys.modules)
            gc.freeze()

    gc.callbacks.append(set_new_aside)
