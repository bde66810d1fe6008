"""`ci-daemon user`: the users of the service."""

from __future__ import annotations

import click

from api.operations import users
from ci_daemon.command.support.body_options import body_options
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.options import email_address
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of

_COLUMNS = ("email", "name", "personal_org_slug", "created_at")


@click.group(cls=Group)
def user() -> None:
    """Users of the service."""


@user.command()
@click.argument("email", type=email_address)
@body_options(users.CreateUserRequest, "name")
@pass_session
def add(session: Session, *, email: str, name: str) -> None:
    """Add a user, the user's personal organization, and an API key for both.

    The key is shown only once: the service stores its hash.
    """
    with session.owners_door() as door:
        added = door.perform(users.create_user, {"email": email}, users.CreateUserRequest(name))
    owned = f"added {added.email}, owner of the organization {added.personal_org_slug}"
    session.answer(document_of(added), f"{owned}\nAPI key, shown only once: {added.token}")


@user.command()
@click.argument("email", required=False)
@click.option("--owner", is_flag=True, help="A link to make one account, whatever [identity] says of sign-ups.")
@pass_session
def link(session: Session, *, email: str | None, owner: bool) -> None:
    """Print a link by which the user EMAIL signs in once, within 15 minutes.

    With --owner and without EMAIL, print a link that makes one account, within a day, such as the first of a service.

    Everybody who has the link can use it: hand it over in private. The audit notes that it was made.
    """
    if owner == (email is not None):
        raise click.UsageError("give the EMAIL of a user, or --owner")
    from api import pages_url  # noqa: PLC0415 - the other commands need no API

    url = pages_url(session.service_url())
    with session.owners_door() as door:
        if email is None:
            page, made = "owner", door.perform(users.create_owner_link, {})
        else:
            page, made = "recover", door.perform(users.create_user_link, {"email": email})
    address = f"{url}/login/{page}#{made.token}"
    session.answer({"email": email, "link": address}, address)


@user.command(name="list", reads=True)
@pass_session
def list_users(session: Session) -> None:
    """List the users, oldest first."""
    with session.owners_door() as door:
        session.records(door.rows(users.list_users, {}), _COLUMNS, "there are no users: `ci-daemon user add` makes one")


@user.command()
@click.argument("email")
@pass_session
def remove(session: Session, *, email: str) -> None:
    """Close the account of the user EMAIL, and the organizations without other members.

    Unfinished builds of these organizations are canceled. Refused if an organization with other members would have no
    owner. The ledger stays as it is.
    """
    with session.owners_door() as door:
        canceled = door.perform(users.remove_user, {"email": email}).canceled_builds
    session.answer(
        {"removed": email, "canceled_builds": canceled},
        f"removed {email}" + (f", and canceled {counted(canceled, 'build')}" if canceled else ""),
    )
