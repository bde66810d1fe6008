"""Records of money: ledger entries, payments, coupons, and the use that debits are for."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import described, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from storage.records.jobs import Shape


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


class PaymentState(StrEnum):
    """The state of a payment session at the provider."""

    OPEN = "open"
    PROCESSING = "processing"
    PAID = "paid"
    FAILED = "failed"
    EXPIRED = "expired"

    def follows(self, other: PaymentState) -> bool:
        """Tell whether a session in the other state may come into this one; events come in any order."""
        return _RANKS[self] > _RANKS[other]


_RANKS = {
    PaymentState.OPEN: 0,
    PaymentState.PROCESSING: 1,
    PaymentState.FAILED: 2,
    PaymentState.EXPIRED: 2,
    PaymentState.PAID: 3,
}


@immutable
class Payment:
    """A payment session; ``intent`` is the provider's name of the payment, which refunds refer to."""

    id: int
    session: str
    organization_id: int
    state: PaymentState
    amount_cents: int
    intent: str | None
    created_at: datetime


@immutable
class SessionReport:
    """A payment session as an event reports it, and the organization that it is for."""

    session: str
    organization_uuid: str
    state: PaymentState
    amount_cents: int
    intent: str | None


@immutable
class RefundReport:
    """One refund of a payment, as an event reports it."""

    refund: str
    intent: str
    amount_cents: int
    failed: bool


@immutable
class RefundTotal:
    """The sum that was refunded of a payment, as an event reports it."""

    intent: str
    refunded_cents: int


@immutable
class NewPaymentEvent:
    """An event of the provider.

    ``payload`` is what is kept of it. Without a ``report`` it changes nothing; ``reason`` says why if it could have.
    """

    event: str
    type: str
    payload: Mapping[str, object]
    report: SessionReport | RefundReport | RefundTotal | None = None
    reason: str | None = None


class EventEffect(StrEnum):
    """The effect of an event: ``noted`` ones change no balance, ``ignored`` ones are not of this service."""

    CREDITED = "credited"
    REFUNDED = "refunded"
    NOTED = "noted"
    IGNORED = "ignored"


@immutable
class EventOutcome:
    """The effect of an event, its organization's slug, and what the owner should know of it.

    A ``repeated`` one was known already; its effect is that of the first time.
    """

    effect: EventEffect
    organization: str | None = None
    reason: str | None = None
    repeated: bool = False


@immutable
class PaymentEvent:
    """An event as it is kept."""

    id: int
    event: str
    type: str
    payload: Mapping[str, object]
    effect: EventEffect
    received_at: datetime


@immutable
class NewCoupon:
    """A coupon to create. ``code`` may have any case and spaces; ``note`` goes into redeemers' ledgers.

    Without ``max_redemptions`` any number of organizations may redeem it, without ``expires_at`` at any time.
    """

    code: str
    credit_cents: int
    max_redemptions: int | None = described(
        "The most organizations that may redeem it; by default no limit, and anybody may create organizations.",
        default=None,
        word="N",
        bounds=(1, 10**9),
    )
    expires_at: datetime | None = None
    note: str | None = None


@immutable
class Coupon:
    """A coupon and the number of its redemptions; it cannot be redeemed from ``expires_at`` on."""

    id: int
    code: str
    credit_cents: int
    max_redemptions: int | None
    expires_at: datetime | None
    note: str | None
    created_at: datetime
    redemptions: int


@immutable
class Redemption:
    """The credit of a redeemed coupon, and the organization's new balance, in cents."""

    credit_cents: int
    balance_cents: int


@immutable
class Usage:
    """The usage of an organization's leases and kept disks in a window; ``total_cents`` is positive.

    ``kept_mb_seconds`` are those of the disks of failed jobs.
    """

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int
    kept_mb_seconds: int = 0

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            self.cpu_seconds + other.cpu_seconds,
            self.memory_gb_seconds + other.memory_gb_seconds,
            self.disk_gb_seconds + other.disk_gb_seconds,
            self.total_cents + other.total_cents,
            self.kept_mb_seconds + other.kept_mb_seconds,
        )


@immutable
class DayUsage:
    """The usage of the leases that started on one day, in UTC."""

    date: date
    usage: Usage


@immutable
class LeaseUsage:
    """One lease of a job, from its command's start, or one hold. One that still runs has no end or price."""

    vm: str
    provider: str
    shape: Shape
    amount_cents: int
    started_at: datetime
    finished_at: datetime | None
    job_uuid: str
    job_name: str
    step_key: str

    @property
    def seconds(self) -> int | None:
        """Whole seconds from start to end; None while it runs."""
        if self.finished_at is None:
            return None
        lasted = self.finished_at - self.started_at
        return max(0, lasted.days * 86_400 + lasted.seconds)


@immutable
class UsedBy:
    """The names of a build.

    ``pipeline_slug`` is None if the pipeline is deleted, because another pipeline may have its slug now.
    """

    uuid: str
    external_id: str
    number: int
    pipeline_uuid: str
    pipeline_name: str
    pipeline_slug: str | None


@immutable
class BuildUsage:
    """The leases of one build that started in a window, oldest first; at least one."""

    build: UsedBy
    leases: tuple[LeaseUsage, ...]

    @property
    def total_cents(self) -> int:
        """The total price of the leases."""
        return sum(lease.amount_cents for lease in self.leases)

    @property
    def started_at(self) -> datetime:
        """The earliest start of a lease."""
        return self.leases[0].started_at

    @property
    def finished_at(self) -> datetime | None:
        """The latest end of a lease; None if none has ended."""
        return max((lease.finished_at for lease in self.leases if lease.finished_at is not None), default=None)
