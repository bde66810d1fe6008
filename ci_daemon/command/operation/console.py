"""`ci-daemon console`: the pages of the host's owner."""

from __future__ import annotations

import click

from api.operations import console as operations
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of


@click.group(cls=Group)
def console() -> None:
    """The pages of the host's owner in the console."""


@console.command()
@pass_session
def link(session: Session) -> None:
    """Print a link to the pages of the host's owner: queue, VMs, images, users, audit and more.

    It signs in once, within 15 minutes, for an hour. Everybody who has it can do what you can on these pages: keep it
    to yourself. The audit notes that it was made, that it was used, and what is changed by it.
    """
    from api import pages_url  # noqa: PLC0415 - the other commands need no API

    url = pages_url(session.service_url())
    with session.owners_door() as door:
        made = door.perform(operations.create_console_link, {})
    address = f"{url}/admin/sign-in#{made.token}"
    session.answer({"link": address}, address)


@console.command()
@pass_session
def close(session: Session) -> None:
    """End every session of the host's owner in the console, and every link that was not used."""
    with session.owners_door() as door:
        ended = door.perform(operations.end_console_sessions, {})
    session.answer(document_of(ended), f"ended {counted(ended.sessions, 'session or link', 'sessions and links')}")
