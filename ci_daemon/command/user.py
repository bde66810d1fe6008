"""`ci-daemon user`: the people who may use the service."""

from __future__ import annotations

import re

import click

from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Group

__all__ = ["user"]

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MOST = 255


def _email(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _EMAIL.fullmatch(value) or not value.isprintable() or len(value) > _MOST:
        raise click.BadParameter(f'"{value[:_MOST]}" is no e-mail address: give one like ada@example.org')
    return value


def _name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value) > _MOST:
        raise click.BadParameter(f"give 1 to {_MOST} characters on one line, not all of them spaces")
    return value


@click.group(cls=Group)
def user() -> None:
    """People who may use the service."""


@user.command(short_help="Add a user with an organization and an API key.")
@click.argument("email", callback=_email)
@click.option("--name", required=True, callback=_name, help="The name to show.")
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
