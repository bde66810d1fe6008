"""Leased VMs, what they left behind, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.builds import Shape

__all__ = [
    "Discrepancy",
    "Lease",
    "LeaseState",
    "LedgerEntry",
    "LedgerSource",
    "PastUse",
    "Snapshot",
]


class LeaseState(StrEnum):
    """The life of a leased VM. A row exists before its VM does and says ``ended`` after the VM is gone."""

    CREATING = "creating"
    WARM = "warm"
    ACTIVE = "active"
    ENDED = "ended"


class LedgerSource(StrEnum):
    """Why an entry stands in the ledger."""

    PAYMENT_TOPUP = "payment_topup"
    COUPON_REDEMPTION = "coupon_redemption"
    ADMIN_GRANT = "admin_grant"
    VM_LEASE_DEBIT = "vm_lease_debit"
    REFUND = "refund"


@dataclass(frozen=True, slots=True)
class Lease:
    """One VM, from before it is made until it is gone.

    ``started_at`` is when the job's command started, which is when billing starts; a lease that never ran a command
    has none and costs nothing. ``uuid`` is also the VM's name at its provider. ``build_id`` is set where a build is
    rendered in it and no job runs.
    """

    id: int
    uuid: str
    organization_id: int | None
    job_id: int | None
    attempt: int
    provider: str
    image: str | None
    shape: Shape
    network: bool
    state: LeaseState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    amount_cents: int
    build_id: int | None = None


@dataclass(frozen=True, slots=True)
class PastUse:
    """A VM that an organization had, from its command's start to its end."""

    organization_id: int
    cpu: int
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job's disk as its command left it, kept by a provider under ``name``.

    ``base`` is the snapshot that it stands on, None where that is an image; ``bytes`` is what it takes beyond that,
    None until it is measured.
    """

    name: str
    job_id: int
    provider: str
    created_at: datetime
    base: str | None = None
    bytes: int | None = None


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
