"""`ci-daemon serve`: run the service."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from actors import AboutFilter
from api import RequestIdFilter
from ci_daemon import journal, service
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.notify import Notifier

if TYPE_CHECKING:
    from ci_daemon.config import Config

__all__ = ["serve"]


@click.command(cls=Command, reads=True)
@click.option(
    "--listen", metavar="HOST:PORT", help="Instead of the configuration's http.listen; port 0 is any free one."
)
@click.option("--wait", is_flag=True, help="When told to stop, wait for running jobs; a second signal waits no more.")
@pass_session
def serve(session: Session, *, listen: str | None, wait: bool) -> int:
    """Run the service in the foreground.

    On SIGTERM or Ctrl-C it accepts no more builds and exits. Without --wait, jobs run on in their VMs, and the next
    start takes them over.
    """

    def load() -> Config:
        config = session.config()
        return config if listen is None else replace(config, http=replace(config.http, listen=listen))

    try:
        config = load()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    journal.set_up(config.journal, RequestIdFilter(), AboutFilter())
    return service.serve(session.state_dir, load, Notifier.from_environment(os.environ), wait=wait)
