"""What stands in the books of organizations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Discrepancy", "LedgerEntry", "LedgerSource"]


class LedgerSource(StrEnum):
    """Why an entry stands in the ledger."""

    PAYMENT_TOPUP = "payment_topup"
    COUPON_REDEMPTION = "coupon_redemption"
    ADMIN_GRANT = "admin_grant"
    VM_LEASE_DEBIT = "vm_lease_debit"
    REFUND = "refund"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the append-only ledger; positive credits, negative debits, whole cents."""

    id: int
    uuid: str
    amount_cents: int
    source: LedgerSource
    description: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that the ledger says and the rest of the database does not; ``problem`` is one sentence."""

    organization_slug: str
    problem: str
