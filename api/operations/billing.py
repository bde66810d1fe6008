"""An organization's money: its balance and its ledger."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Self

from api.operations.operation import GET, Call, Span, operation
from api.operations.things import BILLING, ThisMembership
from storage import LedgerEntry, LedgerSource, Page, immutable


@immutable
class BalanceResponse:
    """An organization's balance, in cents."""

    balance_cents: int


@immutable
class Transaction:
    """One entry of the ledger; positive amounts are credits, negative ones debits."""

    uuid: str
    amount_cents: int
    source: LedgerSource
    created_at: datetime
    description: str | None

    @classmethod
    def of(cls, entry: LedgerEntry) -> Self:
        """Return the record of a stored entry."""
        return cls(entry.uuid, entry.amount_cents, entry.source, entry.created_at, entry.description)


@operation("getBillingBalance", GET, f"{BILLING}/balance/{{org}}", "The balance.")
def get_balance(call: Call, membership: ThisMembership) -> BalanceResponse:
    """Get the organization's balance."""
    return BalanceResponse(call.storage.ledger.balance(membership.organization.id))


@operation("listBillingTransactions", GET, f"{BILLING}/transactions/{{org}}", "A page of entries.")
def list_transactions(call: Call, membership: ThisMembership, span: Span) -> Page[Transaction]:
    """List the organization's ledger entries, newest first."""
    page = call.storage.ledger.page(membership.organization.id, span.limit, span.after)
    return Page(tuple(map(Transaction.of, page.rows)), page.next_key)
