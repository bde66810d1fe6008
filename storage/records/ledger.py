"""Entries of the ledger."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


class LedgerSource(StrEnum):
    """The sources of ledger entries."""

    PAYMENT_TOPUP = "payment_topup"
    COUPON_REDEMPTION = "coupon_redemption"
    ADMIN_GRANT = "admin_grant"
    VM_LEASE_DEBIT = "vm_lease_debit"
    REFUND = "refund"


@immutable
class LedgerEntry:
    """One entry of the append-only ledger, in whole cents; credits are positive, debits negative."""

    id: int
    uuid: str
    amount_cents: int
    source: LedgerSource
    description: str | None
    created_at: datetime


@immutable
class Discrepancy:
    """A contradiction between the ledger and the rest of the database; ``problem`` is one sentence."""

    organization_slug: str
    problem: str
