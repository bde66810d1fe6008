"""`ci-daemon member`: the members of organizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from api.operations import members
from ci_daemon.command.support.body_options import body_option, body_options
from ci_daemon.command.support.command_classes import Command, Group, ServerCommand, SharedCommand
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import Role, document_of

if TYPE_CHECKING:
    from api.doors import Door

_WITH_ARTICLE: dict[str, str] = {Role.OWNER: "an owner", Role.ADMIN: "an admin", Role.MEMBER: "a member"}


@click.group(cls=Group)
def member() -> None:
    """Members of organizations, and their roles."""


@member.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def list_members(session: Session, *, org: str) -> None:
    """List the members of the organization ORG, owners first."""
    with session.door() as door:
        documents = [_document(each) for each in door.rows(members.list_members, {"org": org})]
    session.table(documents, ("email", "name", "role"), f"{org} has no members")


@member.command(cls=Command)
@click.argument("org")
@click.argument("email")
@body_option(members.AddMemberRequest, "role", default=Role.MEMBER.value, show_default=True)
@pass_session
def add(session: Session, *, org: str, email: str, role: Role) -> None:
    """Make the user with the address EMAIL a member of the organization ORG, on the box.

    With a server, `ci-daemon invite create` asks them first.
    """
    with session.owners_door() as door:
        body = members.AddMemberRequest(role)
        added = door.perform(members.add_member, {"org": org, "email": email}, body)
    document = {"org": org, "email": added.email, "role": added.role.value}
    session.answer(document, f"{added.email} is {_WITH_ARTICLE[added.role]} of {org}")


@member.command(name="set", cls=ServerCommand)
@click.argument("org")
@click.argument("email")
@body_options(members.UpdateMemberRoleRequest, "role")
@pass_session
def set_member(session: Session, *, org: str, email: str, role: str) -> None:
    """Change the role of the member EMAIL of the organization ORG."""
    with session.connection() as connection:
        names = {"org": org, "user_id": _find(connection, org, email).user_uuid}
        changed = connection.perform(members.update_member, names, {"role": role})
    session.answer(_document(changed), f"{changed.email} is {_WITH_ARTICLE[changed.role]} of {org}")


@member.command(cls=ServerCommand)
@click.argument("org")
@click.argument("email")
@pass_session
def remove(session: Session, *, org: str, email: str) -> None:
    """Remove the member EMAIL from the organization ORG."""
    with session.connection() as connection:
        found = _find(connection, org, email)
        connection.perform(members.remove_member, {"org": org, "user_id": found.user_uuid})
    session.answer({"removed": found.email}, f"removed {found.email} from {org}")


def _find(door: Door, org: str, email: str) -> members.OrgMember:
    """Return a member by e-mail address. Raises Failure."""
    for each in door.rows(members.list_members, {"org": org}):
        if isinstance(each, members.OrgMember) and each.email == email.lower():
            return each
    raise Failure(f"{email} is no member of {org}: `ci-daemon member list {org}` shows all")


def _document(each: members.OrgMember) -> dict[str, object]:
    return {"id": each.user_uuid, **document_of(each)}
