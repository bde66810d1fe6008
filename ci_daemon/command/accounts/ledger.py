"""`ci-daemon ledger`: the credit of organizations."""

from __future__ import annotations

import csv
import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from api.operations import billing
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.options import CENTS, limit_option, note_option
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of

if TYPE_CHECKING:
    from api.operations import Operation

_COLUMNS = ("id", "created_at", "source", "amount_cents", "balance_cents", "description")


@click.group(cls=Group)
def ledger() -> None:
    """The ledger: credit and debits of organizations."""


@ledger.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@limit_option(1000, default=20)
@pass_session
def list_entries(session: Session, *, org: str, limit: int) -> None:
    """List the newest entries of the ledger of the organization ORG, newest first."""
    with session.door() as door:
        entries = islice(door.rows(billing.list_transactions, {"org": org}), limit)
        session.records(entries, ("created_at", "source", "amount_cents", "description"), f"{org} has no entries")


@ledger.command()
@click.argument("org")
@click.argument("cents", type=CENTS)
@note_option("Why, as the organization's members read it in their transactions.")
@pass_session
def grant(session: Session, *, org: str, cents: int, note: str | None) -> None:
    """Give the organization ORG credit of CENTS (whole cents), which its jobs spend."""
    _credit(session, org, cents, billing.grant_credit, note, "granted")


@ledger.command()
@click.argument("org")
@click.argument("cents", type=CENTS)
@note_option("What for, as the organization's members read it in their transactions.", required=True)
@pass_session
def refund(session: Session, *, org: str, cents: int, note: str) -> None:
    """Refund CENTS (whole cents) of its jobs' cost to the organization ORG. The debits stay as they are."""
    _credit(session, org, cents, billing.refund_credit, note, "refunded")


@ledger.command(reads=True)
@click.argument("org")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with the column names first.")
@pass_session
def export(session: Session, *, org: str, as_csv: bool) -> None:
    """Print every entry of the organization ORG, oldest first, with the balance after it."""
    if as_csv and session.json:
        raise click.UsageError("choose one of --csv and --json")
    with session.owners_door() as door:
        entries = map(document_of, door.rows(billing.export_ledger, {"org": org}))
        if as_csv:
            writer = csv.DictWriter(sys.stdout, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(entries)
        else:
            session.table(list(entries), _COLUMNS[1:], f"{org} has no entries")


@ledger.command(reads=True)
@pass_session
def verify(session: Session) -> None:
    """Compare balances with their entries, debits with what VMs cost, and top-ups with payments."""
    with session.owners_door() as door:
        found = [*door.rows(billing.verify_ledger, {})]
    documents = [{"organization": each.organization_slug, "problem": each.problem} for each in found]
    session.table(documents, ("organization", "problem"), "balances, debits and payments are correct")
    if found:
        discrepancies = counted(len(found), "discrepancy", "discrepancies")
        raise Failure(f"the ledger has {discrepancies}, listed above: restore a backup, or report this")


def _credit(
    session: Session, org: str, cents: int, operation: Operation[billing.Credited], note: str | None, verb: str
) -> None:
    with session.owners_door() as door:
        made = door.perform(operation, {"org": org}, billing.CreditRequest(cents, note))
    words = f"{verb} {counted(cents, 'cent')} to {org}, which now has {made.balance_cents}"
    session.answer(document_of(made), words)
