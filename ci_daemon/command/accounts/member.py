"""`ci-daemon member`: the members of organizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Command, Group, ServerCommand, SharedCommand
from ci_daemon.command.support.documents import document_of
from ci_daemon.command.support.lookup import find_organization, find_user
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import Role

if TYPE_CHECKING:
    from ci_daemon.remote.account_views import MemberView
    from ci_daemon.remote.connection import Connection

__all__ = ["member"]

_WITH_ARTICLE: dict[str, str] = {Role.OWNER: "an owner", Role.ADMIN: "an admin", Role.MEMBER: "a member"}
_role_choice = click.Choice([role.value for role in Role])


@click.group(cls=Group)
def member() -> None:
    """Members of organizations, and their roles."""


@member.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def list_members(session: Session, *, org: str) -> None:
    """List the members of the organization ORG, owners first."""
    with session.backend() as backend:
        documents = [_document(each) for each in backend.members.all(org)]
    session.table(documents, ("email", "name", "role"), f"{org} has no members")


@member.command(cls=Command)
@click.argument("org")
@click.argument("email")
@click.option(
    "--role",
    type=_role_choice,
    default=Role.MEMBER.value,
    show_default=True,
    help="Members build, admins also manage members and settings, owners also owners.",
)
@pass_session
def add(session: Session, *, org: str, email: str, role: str) -> None:
    """Make the user with the address EMAIL a member of the organization ORG, on the box.

    With a server, `ci-daemon invite create` asks them first.
    """
    with session.storage_without_billing() as storage:
        organization = find_organization(storage, org)
        user = find_user(storage, email)
        if storage.organizations.role(organization.id, user.id) is not None:
            raise Failure(f"{email} is already a member of {org}")
        storage.organizations.add_member(organization.id, user.id, Role(role))
    session.answer({"org": org, "email": user.email, "role": role}, f"{user.email} is {_WITH_ARTICLE[role]} of {org}")


@member.command(name="set", cls=ServerCommand)
@click.argument("org")
@click.argument("email")
@click.option("--role", type=_role_choice, required=True, help="The new role.")
@pass_session
def set_member(session: Session, *, org: str, email: str, role: str) -> None:
    """Change the role of the member EMAIL of the organization ORG."""
    # Only here, because the box needs no client.
    from ci_daemon.remote import operations  # noqa: PLC0415

    with session.connection() as connection:
        names = {"org": org, "user_id": _find(connection, org, email).user_uuid}
        changed = connection.call(operations.UPDATE_MEMBER, names, body={"role": role})
    session.answer(_document(changed), f"{changed.email} is {_WITH_ARTICLE[changed.role]} of {org}")


@member.command(cls=ServerCommand)
@click.argument("org")
@click.argument("email")
@pass_session
def remove(session: Session, *, org: str, email: str) -> None:
    """Remove the member EMAIL from the organization ORG."""
    from ci_daemon.remote import operations  # noqa: PLC0415 - as above

    with session.connection() as connection:
        found = _find(connection, org, email)
        connection.call(operations.REMOVE_MEMBER, {"org": org, "user_id": found.user_uuid})
    session.answer({"removed": found.email}, f"removed {found.email} from {org}")


def _find(connection: Connection, org: str, email: str) -> MemberView:
    from ci_daemon.remote import operations  # noqa: PLC0415 - as above

    found = connection.call(operations.LIST_MEMBERS, {"org": org}).data
    try:
        return next(each for each in found if each.email == email.lower())
    except StopIteration:
        raise Failure(f"{email} is no member of {org}: `ci-daemon member list {org}` shows all") from None


def _document(each: MemberView) -> dict[str, object]:
    return {"id": each.user_uuid, **document_of(each)}
