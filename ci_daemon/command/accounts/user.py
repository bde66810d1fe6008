"""`ci-daemon user`: the users of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_user
from ci_daemon.command.support.person import display_name, email_address
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.terminal.counts import counted
from storage import SoleOwner

if TYPE_CHECKING:
    from storage import User

__all__ = ["user"]

_COLUMNS = ("email", "name", "personal_org_slug", "created_at")


@click.group(cls=Group)
def user() -> None:
    """Users of the service."""


@user.command()
@click.argument("email", type=email_address)
@click.option("--name", type=display_name, metavar="NAME", required=True, help="The name to show.")
@pass_session
def add(session: Session, *, email: str, name: str) -> None:
    """Add a user, the user's personal organization, and an API key for both.

    The key is shown only once: the service stores its hash.
    """
    with session.storage_without_billing() as storage:
        added = storage.users.create(email, name)
        _, token = storage.tokens.create_api_key(added.id, "made with the user")
    session.answer(
        {
            "uuid": added.uuid,
            "email": added.email,
            "personal_org_slug": added.personal_org_slug,
            "token": token,
        },
        f"added {added.email}, owner of the organization {added.personal_org_slug}\nAPI key, shown only once: {token}",
    )


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
    with session.storage_without_billing() as storage:
        if email is None:
            page, token = "owner", storage.sign_in_links.owner()
        else:
            page, token = "recover", storage.sign_in_links.magic_link(find_user(storage, email))
    address = f"{url}/login/{page}#{token}"
    session.answer({"email": email, "link": address}, address)


@user.command(name="list", reads=True)
@pass_session
def list_users(session: Session) -> None:
    """List the users, oldest first."""
    with session.storage_without_billing() as storage:
        documents = [_document(each) for each in storage.users.all()]
    session.table(documents, _COLUMNS, "there are no users: `ci-daemon user add` makes one")


@user.command()
@click.argument("email")
@pass_session
def remove(session: Session, *, email: str) -> None:
    """Close the account of the user EMAIL, and the organizations without other members.

    Unfinished builds of these organizations are canceled. Refused if an organization with other members would have no
    owner. The ledger stays as it is.
    """
    with session.storage() as storage:
        try:
            canceled = storage.accounts.close(find_user(storage, email).id)
        except SoleOwner as error:
            owned = ", ".join(error.slugs)
            raise Failure(f"others belong to {owned}, which {email} alone owns: let one of them own it first") from None
    session.answer(
        {"removed": email, "canceled_builds": len(canceled)},
        f"removed {email}" + (f", and canceled {counted(len(canceled), 'build')}" if canceled else ""),
    )


def _document(each: User) -> dict[str, object]:
    return {
        "id": each.uuid,
        "email": each.email,
        "name": each.name,
        "personal_org_slug": each.personal_org_slug,
        "created_at": timestamp(each.created_at),
    }
