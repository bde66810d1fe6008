"""`ci-daemon user`: the people who may use the service."""

from __future__ import annotations

import click

from ci_daemon.command.person import email_address, shown_name
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Group

__all__ = ["user"]


@click.group(cls=Group)
def user() -> None:
    """People who may use the service."""


@user.command(short_help="Add a user with an organization and an API key.")
@click.argument("email", type=email_address)
@click.option("--name", type=shown_name, metavar="NAME", required=True, help="The name to show.")
@pass_session
def add(session: Session, *, email: str, name: str) -> None:
    """Add a user, the user's personal organization, and an API key for both.

    The key is shown this once: only its hash is kept.
    """
    with session.storage() as storage:
        added = storage.users.create(email, name)
        _, token = storage.tokens.create_api_key(added.id, "made with the user")
    session.answer(
        {
            "uuid": added.uuid,
            "email": added.email,
            "personal_org_slug": added.personal_org_slug,
            "token": token,
        },
        f"added {added.email}, owner of the organization {added.personal_org_slug}\nAPI key, shown this once: {token}",
    )
