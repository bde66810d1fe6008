"""`ci-daemon whoami`: the person whom a server takes the caller for."""

from __future__ import annotations

import click

from api.operations import user as users
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.session import Session, pass_session


@click.command(cls=CallerCommand, reads=True)
@pass_session
def whoami(session: Session) -> None:
    """Show who you are at the server that commands speak to."""
    server = session.signed_in()
    with session.connection() as connection:
        user = connection.perform(users.get_current_user, {})
    document = {
        "email": user.email,
        "name": user.name,
        "personal_org": user.personal_org_slug,
        "url": server.url,
        "context": server.context and server.context.name,
    }
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)
