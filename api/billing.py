"""An organization's money: its balance, its ledger and what its VMs used."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel

import storage
from api.bodies import answer
from api.errors import ApiError
from api.fields import Timestamp, Uuid, stamp
from api.operations import Answer, Parameter, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import LedgerSource, Storage

if TYPE_CHECKING:
    import falcon

    from api.access import Access
    from api.paging import Pager

__all__ = ["BalanceRecord", "Billing", "TransactionRecord", "UsageRecord"]


_MOMENT = {"type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00Z"]}
_WINDOW = (
    Parameter("from", "The window's first moment, with an offset.", _MOMENT, required=True),
    Parameter("to", "The first moment after the window, with an offset.", _MOMENT, required=True),
)


class BalanceRecord(BaseModel):
    """What an organization has left, in cents."""

    balance_cents: int


class TransactionRecord(BaseModel):
    """One entry of the ledger; positive amounts are credits, negative ones debits."""

    id: Uuid
    amount_cents: int
    source: LedgerSource
    created_at: Timestamp
    description: str | None

    @classmethod
    def of(cls, entry: storage.LedgerEntry) -> TransactionRecord:
        """Return the record of a ledger entry."""
        return cls(
            id=entry.uuid,
            amount_cents=entry.amount_cents,
            source=entry.source,
            created_at=stamp(entry.created_at),
            description=entry.description,
        )


class UsageRecord(BaseModel):
    """What an organization's leases used in a window, and what that cost."""

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int

    @classmethod
    def of(cls, usage: storage.Usage) -> UsageRecord:
        """Return the record of a stored sum."""
        return cls(
            cpu_seconds=usage.cpu_seconds,
            memory_gb_seconds=usage.memory_gb_seconds,
            disk_gb_seconds=usage.disk_gb_seconds,
            total_cents=usage.total_cents,
        )


class Billing:
    """``/api/v0/billing/…/{org}``."""

    def __init__(self, storage: Storage, access: Access, pager: Pager) -> None:
        self._storage = storage
        self._access = access
        self._pager = pager

    @operation("getBalance", Answer(200, "The balance.", BalanceRecord), errors=("organization_not_found",))
    def on_get_balance(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Get what the organization has left."""
        organization = self._access.member(req, org).organization
        answer(resp, BalanceRecord(balance_cents=self._storage.ledger.balance(organization.id)))

    @operation(
        "listTransactions",
        Answer(200, "A page of entries.", PageRecord[TransactionRecord]),
        errors=("organization_not_found", *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_transactions(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the organization's ledger, newest entries first."""
        organization = self._access.member(req, org).organization
        scope = f"transactions/{organization.id}"
        wanted = self._pager.request(req, scope)
        page = self._storage.ledger.page(organization.id, wanted.limit, wanted.after)
        answer(resp, self._pager.page(page, scope, TransactionRecord.of))

    @operation(
        "getUsage",
        Answer(200, "The sums.", UsageRecord),
        errors=("organization_not_found", "billing_usage_window_invalid"),
        parameters=_WINDOW,
    )
    def on_get_usage(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Sum up the leases that started in a window."""
        organization = self._access.member(req, org).organization
        start, end = _window(req)
        answer(resp, UsageRecord.of(self._storage.usage.total(organization.id, start, end)))


def _window(req: falcon.Request) -> tuple[datetime, datetime]:
    """Read the usage window. Raises ApiError ``billing_usage_window_invalid``."""
    start, end = _moment(req, "from"), _moment(req, "to")
    if end <= start:
        raise ApiError("billing_usage_window_invalid", "to: expected a time later than from")
    return start, end


def _moment(req: falcon.Request, name: str) -> datetime:
    """Read one end of the window. A ``+`` that was not escaped arrives as a space and is understood all the same."""
    text = req.get_param(name) or ""
    try:
        moment = datetime.fromisoformat(text[:11] + text[11:].replace(" ", "+"))
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ApiError(
            "billing_usage_window_invalid",
            f"{name}: expected an ISO 8601 time with an offset, such as 2026-01-01T00:00:00Z",
        ) from None
