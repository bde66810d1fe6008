"""`ci-daemon org`: create and change organizations, as the owner of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_organization, find_user
from ci_daemon.command.support.person import display_name
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.texts import one_line
from storage import NameUnusable, Role

if TYPE_CHECKING:
    from storage import Organization, Storage

__all__ = ["org"]

_COLUMNS = ("slug", "name", "balance_cents", "weight", "fail_fast")
_MAX_WEIGHT = 1_000_000
_MAX_URL = 255


@click.group(cls=Group)
def org() -> None:
    """Organizations: owners of pipelines, with a share of the host."""


@org.command(name="list", reads=True)
@pass_session
def list_organizations(session: Session) -> None:
    """List the organizations, oldest first."""
    with session.storage_without_billing() as storage:
        documents = [_document(each, storage) for each in storage.organizations.all()]
    session.table(documents, _COLUMNS, "there are no organizations: `ci-daemon org create` makes one")


@org.command()
@click.argument("name", type=display_name)
@click.option("--owner", metavar="EMAIL", required=True, help="The e-mail address of the user who owns it.")
@click.option("--url", type=one_line(_MAX_URL), metavar="URL", help="Its web site, to show.")
@pass_session
def create(session: Session, *, name: str, owner: str, url: str | None) -> None:
    """Create the organization NAME, owned by a user.

    Its slug is made from NAME, with -2, -3 and so on if that is taken.
    """
    with session.storage_without_billing() as storage:
        user = find_user(storage, owner)
        try:
            made = storage.organizations.create(name, url or "", user.id)
        except NameUnusable as error:
            raise Failure(str(error)) from None
        session.organization = made.slug
        document = {**_document(made, storage), "url": made.url, "owner": user.email}
    session.answer(document, f"created {made.slug}, owned by {user.email}")


@org.command(name="set")
@click.argument("org")
@click.option("--fail-fast/--no-fail-fast", default=None, help="Whether the first failure cancels the rest of a build.")
@click.option(
    "--weight",
    type=click.IntRange(1, _MAX_WEIGHT),
    help="Its share of VM time while others wait, as a multiple of that of an organization of weight 1.",
)
@pass_session
def set_organization(session: Session, *, org: str, fail_fast: bool | None, weight: int | None) -> None:
    """Change settings of the organization ORG, with immediate effect, also on running builds."""
    if fail_fast is None and weight is None:
        raise click.UsageError("give --fail-fast, --no-fail-fast or --weight")
    with session.storage_without_billing() as storage:
        storage.organizations.configure(find_organization(storage, org).id, fail_fast=fail_fast, weight=weight)
        document = _document(find_organization(storage, org), storage)
    on = "on" if document["fail_fast"] else "off"
    session.answer(document, f"{org}: weight {document['weight']}, fail fast {on}")


@org.command(reads=True)
@click.argument("org")
@pass_session
def members(session: Session, *, org: str) -> None:
    """List the members of the organization ORG, owners first."""
    with session.storage_without_billing() as storage:
        found = storage.members.all(find_organization(storage, org).id)
    documents = [{"id": each.uuid, "email": each.email, "name": each.name, "role": each.role.value} for each in found]
    session.table(documents, ("email", "name", "role"), f"{org} has no members")


@org.command(name="add-member")
@click.argument("org")
@click.argument("email")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.MEMBER.value,
    show_default=True,
    help="Members build, admins also manage members and settings, owners also owners.",
)
@pass_session
def add_member(session: Session, *, org: str, email: str, role: str) -> None:
    """Make the user with the address EMAIL a member of the organization ORG."""
    with session.storage_without_billing() as storage:
        organization = find_organization(storage, org)
        user = find_user(storage, email)
        if storage.organizations.role(organization.id, user.id) is not None:
            raise Failure(f"{email} is already a member of {org}")
        storage.organizations.add_member(organization.id, user.id, Role(role))
    session.answer({"org": org, "email": user.email, "role": role}, f"{user.email} is {role} of {org}")


def _document(each: Organization, storage: Storage) -> dict[str, object]:
    return {
        "id": each.uuid,
        "slug": each.slug,
        "name": each.name,
        "balance_cents": storage.ledger.balance(each.id),
        "weight": each.weight,
        "fail_fast": each.fail_fast,
    }
