"""`ci-daemon invite`: invites to organizations of a server."""

from __future__ import annotations

import click

from api.operations import invites
from ci_daemon.command.support.body_options import body_option
from ci_daemon.command.support.command_classes import Group, ServerCommand
from ci_daemon.command.support.input import hidden_line
from ci_daemon.command.support.options import email_address
from ci_daemon.command.support.session import Session, pass_session
from storage import Role, document_of

_COLUMNS = ("id", "email", "role", "expires_at")


@click.group(cls=Group)
def invite() -> None:
    """Invites: how people become members of organizations."""


@invite.command(name="list", cls=ServerCommand)
@click.argument("org")
@pass_session
def list_invites(session: Session, *, org: str) -> None:
    """List the invites to the organization ORG that nobody has accepted yet."""
    with session.connection() as connection:
        session.records(connection.rows(invites.list_invites, {"org": org}), _COLUMNS, f"{org} has no invites")


@invite.command(cls=ServerCommand)
@click.argument("org")
@click.argument("email", type=email_address)
@body_option(invites.CreateInviteRequest, "role", default=Role.MEMBER.value, show_default=True)
@pass_session
def create(session: Session, *, org: str, email: str, role: str) -> None:
    """Invite the person with the address EMAIL to the organization ORG.

    The server sends an e-mail, if it can. The token is shown only once; `ci-daemon invite accept` takes it, too.
    """
    with session.connection() as connection:
        made = connection.perform(invites.create_invite, {"org": org}, {"email": email, "role": role})
    session.answer(document_of(made), f"invited {made.email} to {org} as {made.role}; the token: {made.token}")


@invite.command(cls=ServerCommand)
@click.argument("org")
@click.argument("id")
@pass_session
def revoke(session: Session, *, org: str, id: str) -> None:
    """Revoke the invite ID to the organization ORG."""
    with session.connection() as connection:
        connection.perform(invites.revoke_invite, {"org": org, "id": id})
    session.answer({"revoked": id}, f"revoked {id}")


@invite.command(cls=ServerCommand)
@pass_session
def accept(session: Session) -> None:
    """Accept the invite whose token is on stdin, or is typed at a prompt that does not show it."""
    token = hidden_line("Token")
    with session.connection() as connection:
        joined = connection.perform(invites.accept_invite, {}, {"token": token})
    session.answer(document_of(joined), f"you are a member of {joined.slug}")
