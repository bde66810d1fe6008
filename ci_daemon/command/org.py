"""`ci-daemon org`: what the owner of the host sets of organizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.lookup import find_organization
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Group

if TYPE_CHECKING:
    from storage import Organization, Storage

__all__ = ["org"]

_COLUMNS = ("slug", "name", "balance_cents", "weight", "fail_fast")
_HEAVIEST = 1_000_000


@click.group(cls=Group)
def org() -> None:
    """Organizations: who owns pipelines, and how much of the host is theirs."""


@org.command(name="list", short_help="List the organizations.")
@pass_session
def list_organizations(session: Session) -> None:
    """List the organizations, oldest first."""
    with session.storage() as storage:
        documents = [_document(each, storage) for each in storage.organizations.all()]
    session.table(documents, _COLUMNS, "there is no organization: `ci-daemon user add` makes one")


@org.command(name="set", short_help="Change an organization's settings.")
@click.argument("org")
@click.option("--fail-fast/--no-fail-fast", default=None, help="Whether the first failure cancels the rest of a build.")
@click.option(
    "--weight",
    type=click.IntRange(1, _HEAVIEST),
    help="How many times the VM time of an organization of weight 1 it gets while both wait.",
)
@pass_session
def set_organization(session: Session, *, org: str, fail_fast: bool | None, weight: int | None) -> None:
    """Change settings of the organization ORG. They hold at once, for builds that run too."""
    if fail_fast is None and weight is None:
        raise click.UsageError("say what to change: --fail-fast, --no-fail-fast or --weight")
    with session.storage() as storage:
        storage.organizations.configure(find_organization(storage, org).id, fail_fast=fail_fast, weight=weight)
        document = _document(find_organization(storage, org), storage)
    on = "on" if document["fail_fast"] else "off"
    session.answer(document, f"{org}: weight {document['weight']}, fail fast {on}")


def _document(each: Organization, storage: Storage) -> dict[str, object]:
    return {
        "id": each.uuid,
        "slug": each.slug,
        "name": each.name,
        "balance_cents": storage.ledger.balance(each.id),
        "weight": each.weight,
        "fail_fast": each.fail_fast,
    }
