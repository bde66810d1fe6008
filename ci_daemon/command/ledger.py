"""`ci-daemon ledger`: what organizations have to spend."""

from __future__ import annotations

import click

from ci_daemon.command.lookup import find_organization
from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import Group
from storage import LedgerSource

__all__ = ["ledger"]

_MOST = 10**11
_LONGEST_NOTE = 10_000


def _note(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and len(value) > _LONGEST_NOTE:
        raise click.BadParameter(f"give at most {_LONGEST_NOTE} characters")
    return value


@click.group(cls=Group)
def ledger() -> None:
    """What organizations have to spend."""


@ledger.command(short_help="Give an organization credit.")
@click.argument("org")
@click.argument("cents", type=click.IntRange(1, _MOST))
@click.option(
    "--note", metavar="TEXT", callback=_note, help="Why, as the organization's members read it in their transactions."
)
@pass_session
def grant(session: Session, *, org: str, cents: int, note: str | None) -> None:
    """Give the organization ORG credit of CENTS (whole cents). It is spent by the jobs that it runs."""
    with session.storage() as storage:
        organization = find_organization(storage, org)
        entry = storage.ledger.append(organization.id, cents, LedgerSource.ADMIN_GRANT, note)
        balance = storage.ledger.balance(organization.id)
    session.answer(
        {"id": entry.uuid, "organization": org, "amount_cents": cents, "balance_cents": balance},
        f"granted {cents} cents to {org}, which now has {balance}",
    )


@ledger.command(short_help="Prove that balances and debits are right.")
@pass_session
def verify(session: Session) -> None:
    """Compare every balance with its entries, and every finished job's debit with what its VMs cost."""
    with session.storage() as storage:
        found = storage.ledger.verify()
    documents = [{"organization": each.organization_slug, "problem": each.problem} for each in found]
    session.table(documents, ("organization", "problem"), "balances and debits are right")
    if found:
        raise Failure(f"the ledger does not add up, see above ({len(found)}): restore a backup, or report this")
