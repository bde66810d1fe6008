"""An organization's money: its balance and its ledger."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import storage
from api.bodies import answer
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import JsonModel, LedgerSource, Storage

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.paging import Pager

__all__ = ["BalanceResponse", "BillingResource", "TransactionRecord"]


class BalanceResponse(JsonModel):
    """An organization's balance, in cents."""

    balance_cents: int


class TransactionRecord(StoredRecord):
    """One entry of the ledger; positive amounts are credits, negative ones debits."""

    id: Uuid
    amount_cents: int
    source: LedgerSource
    created_at: Timestamp
    description: str | None

    @classmethod
    def of(cls, entry: storage.LedgerEntry) -> TransactionRecord:
        """Return the record of a ledger entry."""
        return cls.showing(entry, id=entry.uuid)


class BillingResource:
    """``/api/v0/billing/…/{org}``."""

    def __init__(self, storage: Storage, access: Access, pager: Pager) -> None:
        self._storage = storage
        self._access = access
        self._pager = pager

    @operation("getBillingBalance", Answer(200, "The balance.", BalanceResponse), errors=("organization_not_found",))
    def on_get_balance(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Get the organization's balance."""
        organization = self._access.member(req, org).organization
        answer(resp, BalanceResponse(balance_cents=self._storage.ledger.balance(organization.id)))

    @operation(
        "listBillingTransactions",
        Answer(200, "A page of entries.", PageRecord[TransactionRecord]),
        errors=("organization_not_found", *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_transactions(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the organization's ledger entries, newest first."""
        organization = self._access.member(req, org).organization
        page = partial(self._storage.ledger.page, organization.id)
        self._pager.answer(req, resp, f"transactions/{organization.id}", page, TransactionRecord.of)
