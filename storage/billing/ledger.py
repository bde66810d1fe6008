"""The append-only ledger, in whole cents; a trigger keeps the balances (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import peewee

from storage.database.statements import NEWEST, Columns, Query, Write, first, insert_into, slot, written
from storage.models.accounts import OrganizationRow
from storage.models.billing import LedgerRow, PaymentRefundRow, PaymentRow, PaymentTotalRow, RerunDebitRow
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import DiskDayRow, HoldRow, LeaseRow
from storage.models.pipelines import PipelineRow
from storage.records.billing import Discrepancy, LedgerEntry, LedgerSource, PaymentState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.database.connection import Database
    from storage.documents import Page


_ENTRY = Columns.of(LedgerEntry, LedgerRow)
_BATCH = 1000


class Ledger:
    """Each organization's credits and debits. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        of_organization = LedgerRow.organization == slot("organization_id")
        entries = LedgerRow.select(*_ENTRY.selected)
        self._by_id = Query(database, lambda: entries.where(LedgerRow.id == slot("id")), _ENTRY)
        self._page = Query(
            database,
            lambda: (
                entries.where(of_organization, LedgerRow.id < slot("after"))
                .order_by(LedgerRow.id.desc())
                .limit(slot("limit"))
            ),
            _ENTRY,
        )
        self._after = Query(
            database,
            lambda: entries.where(of_organization, LedgerRow.id > slot("after")).order_by(LedgerRow.id).limit(_BATCH),
            _ENTRY,
        )
        self._balance = Query(
            database,
            lambda: OrganizationRow.select(OrganizationRow.balance_cents).where(
                OrganizationRow.id == slot("organization_id")
            ),
            first,
        )
        overdrawn = peewee.fn.TOTAL(OrganizationRow.balance_cents < 0)
        self._totals = Query(
            database,
            lambda: OrganizationRow.select(
                peewee.fn.COALESCE(peewee.fn.SUM(OrganizationRow.balance_cents), 0), overdrawn
            ),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._insert = Write(database, lambda: insert_into(LedgerRow))
        self._insert_rerun = Write(database, lambda: insert_into(RerunDebitRow))
        started = LeaseRow.started_at.is_null(is_null=False)
        self._job_total = Query(
            database,
            lambda: (
                LeaseRow.select(
                    peewee.fn.SUM(LeaseRow.amount_cents),
                    JobRow.organization,
                    PipelineRow.slug,
                    BuildRow.number,
                    JobRow.step_key,
                    JobRow.attempts_before,
                )
                .join(JobRow)
                .join(BuildRow)
                .join(PipelineRow)
                .where(LeaseRow.job == slot("job_id"), started, LeaseRow.attempt > JobRow.attempts_before)
                .group_by(JobRow.id)
            ),
            tuple,
        )
        self._job_name = Query(
            database,
            lambda: (
                JobRow.select(JobRow.organization, PipelineRow.slug, BuildRow.number, JobRow.step_key)
                .join(BuildRow)
                .join(PipelineRow)
                .where(JobRow.id == slot("job_id"))
            ),
            tuple,
        )
        self._verification = LedgerVerification(database)

    def append(
        self,
        organization_id: int,
        amount_cents: int,
        source: LedgerSource,
        description: str | None,
        *,
        payment_id: int | None = None,
    ) -> LedgerEntry:
        """Append an entry: a positive amount is a credit, a negative one a debit.

        ``payment_id`` is the payment of a top-up, or of its refund.
        """
        with self._database.write():
            entry_id = self._write(organization_id, amount_cents, source, description, payment_id=payment_id)
            return written(self._by_id.one(id=entry_id))

    def balance(self, organization_id: int) -> int:
        """Return an organization's balance in cents, at a cost that does not grow with the ledger."""
        return self._balance.one(organization_id=organization_id) or 0

    def totals(self) -> tuple[int, int]:
        """Return the sum of all balances in cents, and how many organizations have a negative balance."""
        return written(self._totals.one())

    def page(self, organization_id: int, limit: int, after: int | None) -> Page[LedgerEntry]:
        """Return an organization's entries past the key ``after``, newest first."""
        older_than = NEWEST if after is None else after
        return self._page.page(limit, lambda entry: entry.id, organization_id=organization_id, after=older_than)

    def entries(self, organization_id: int) -> Iterator[LedgerEntry]:
        """Yield an organization's entries, oldest first, reading them in batches."""
        after = 0
        while batch := self._after.all(organization_id=organization_id, after=after):
            yield from batch
            after = batch[-1].id

    def verify(self) -> list[Discrepancy]:
        """Compare balances, jobs, holds and payments with their entries; [] if all agree."""
        return self._verification.discrepancies()

    def debit_job(self, job_id: int) -> None:
        """Append the one debit of a job's run that just ended, inside the caller's transaction.

        It is the sum of the prices of the run's leases, even if that is 0. A run without a command has none. The first
        run's entry names the job.
        """
        total = self._job_total.one(job_id=job_id)
        if total is None:
            return
        cents, organization_id, pipeline, number, step_key, before = total
        description = f"{pipeline} #{number} {step_key}"
        source = LedgerSource.VM_LEASE_DEBIT
        if not before:
            self._write(organization_id, -cents, source, description, job_id=job_id)
            return
        entry_id = self._write(organization_id, -cents, source, f"{description}, again")
        self._insert_rerun.run(entry_id=entry_id, job_id=job_id, attempts_before=before)

    def debit_hold(self, job_id: int, cents: int, what: str) -> int:
        """Append the debit of a hold that just ended, even of 0 cents; return the entry's id.

        ``what`` is what was done with the VM. Part of the caller's transaction.
        """
        organization_id, pipeline, number, step_key = written(self._job_name.one(job_id=job_id))
        description = f"{pipeline} #{number} {step_key}, {what}"
        return self._write(organization_id, -cents, LedgerSource.VM_LEASE_DEBIT, description)

    def debit_disks(self, organization_id: int, cents: int, day: str) -> int:
        """Append the debit of an organization's kept disks on a day that is over; return the entry's id.

        Part of the caller's transaction.
        """
        description = f"disks of failed jobs on {day}"
        return self._write(organization_id, -cents, LedgerSource.VM_LEASE_DEBIT, description)

    def _write(
        self,
        organization_id: int,
        amount_cents: int,
        source: LedgerSource,
        description: str | None,
        *,
        job_id: int | None = None,
        payment_id: int | None = None,
    ) -> int:
        return self._insert.insert(
            uuid=str(uuid4()),
            organization_id=organization_id,
            amount_cents=amount_cents,
            source=source,
            description=description,
            job_id=job_id,
            payment_id=payment_id,
            created_at=self._database.now(),
        )


class LedgerVerification:
    """Queries for what the ledger contradicts; each finds nothing in a sound ledger."""

    def __init__(self, database: Database) -> None:
        self._unbalanced = Query(database, _unbalanced, _describe_balance)
        self._wrong_job_debits = Query(database, _wrong_job_debits, _describe_job)
        self._wrong_hold_debits = Query(database, _wrong_hold_debits, _describe_hold)
        self._wrong_disk_debits = Query(database, _wrong_disk_debits, _describe_disks)
        self._wrong_topups = Query(database, _wrong_topups, _describe_topup)
        self._stray_topups = Query(database, _stray_topups, _describe_stray)
        self._wrong_refunds = Query(database, _wrong_refunds, _describe_refund)

    def discrepancies(self) -> list[Discrepancy]:
        """Return what was found."""
        debits = self._wrong_job_debits.all() + self._wrong_hold_debits.all() + self._wrong_disk_debits.all()
        payments = self._wrong_topups.all() + self._stray_topups.all() + self._wrong_refunds.all()
        return self._unbalanced.all() + debits + payments


def _unbalanced() -> peewee.Query:
    summed = _sum(LedgerRow.amount_cents, LedgerRow.organization == OrganizationRow.id)
    return OrganizationRow.select(OrganizationRow.slug, OrganizationRow.balance_cents, summed).where(
        OrganizationRow.balance_cents != summed
    )


def _describe_balance(row: Sequence[Any]) -> Discrepancy:
    slug, kept, summed = row
    return Discrepancy(slug, f"the balance is kept as {kept} cents, the entries sum up to {summed}")


def _wrong_job_debits() -> peewee.Query:
    """Return the jobs that are over whose debits, one for each run, are missing or wrong."""
    started = LeaseRow.started_at.is_null(is_null=False)
    leased = _sum(LeaseRow.amount_cents, LeaseRow.job == JobRow.id, started)
    ran = peewee.fn.EXISTS(LeaseRow.select(LeaseRow.id).where(LeaseRow.job == JobRow.id, started))
    of_reruns = RerunDebitRow.select(RerunDebitRow.entry).where(RerunDebitRow.job == JobRow.id)
    entries = (LedgerRow.job == JobRow.id) | LedgerRow.id.in_(of_reruns)
    debited = LedgerRow.select(peewee.fn.SUM(LedgerRow.amount_cents)).where(entries)
    return (
        JobRow.select(OrganizationRow.slug, JobRow.uuid, leased, debited)
        .join(OrganizationRow)
        .where(
            JobRow.finished_at.is_null(is_null=False),
            (ran & peewee.Expression(debited, "IS", None)) | (debited != 0 - leased),
        )
    )


def _describe_job(row: Sequence[Any]) -> Discrepancy:
    slug, job_uuid, leased, debit = row
    billed = "has no debit" if debit is None else f"is debited {-debit} cents"
    return Discrepancy(slug, f"job {job_uuid} {billed}, its leases cost {leased}")


def _wrong_hold_debits() -> peewee.Query:
    return (
        HoldRow.select(OrganizationRow.slug, JobRow.uuid, HoldRow.amount_cents, LedgerRow.amount_cents)
        .join(OrganizationRow)
        .switch(HoldRow)
        .join(JobRow)
        .switch(HoldRow)
        .join(LedgerRow)
        .where(LedgerRow.amount_cents != 0 - HoldRow.amount_cents)
    )


def _describe_hold(row: Sequence[Any]) -> Discrepancy:
    slug, job_uuid, cents, debit = row
    return Discrepancy(slug, f"the hold of job {job_uuid} is debited {-debit} cents, it cost {cents}")


def _wrong_disk_debits() -> peewee.Query:
    return (
        DiskDayRow.select(OrganizationRow.slug, DiskDayRow.amount_cents, LedgerRow.amount_cents)
        .join(OrganizationRow)
        .switch(DiskDayRow)
        .join(LedgerRow)
        .where(LedgerRow.amount_cents != 0 - DiskDayRow.amount_cents)
    )


def _describe_disks(row: Sequence[Any]) -> Discrepancy:
    slug, cents, debit = row
    return Discrepancy(slug, f"a day of kept disks is debited {-debit} cents, it cost {cents}")


def _wrong_topups() -> peewee.Query:
    """Return the payments whose credit is missing, double or wrong."""
    credited = _entered(LedgerSource.PAYMENT_TOPUP)
    due = peewee.Case(None, [(PaymentRow.state == PaymentState.PAID, PaymentRow.amount_cents)], 0)
    return (
        PaymentRow.select(OrganizationRow.slug, PaymentRow.session, due, credited)
        .join(OrganizationRow)
        .where(credited != due)
    )


def _describe_topup(row: Sequence[Any]) -> Discrepancy:
    slug, session, due, credited = row
    return Discrepancy(slug, f"payment {session} is credited {credited} cents, the provider reports {due} as paid")


def _stray_topups() -> peewee.Query:
    """Return the top-ups that name no payment of their organization."""
    payment = (PaymentRow.id == LedgerRow.payment) & (PaymentRow.organization == LedgerRow.organization)
    return (
        LedgerRow.select(OrganizationRow.slug, LedgerRow.uuid, LedgerRow.amount_cents)
        .join(OrganizationRow)
        .switch(LedgerRow)
        .join(PaymentRow, peewee.JOIN.LEFT_OUTER, on=payment)
        .where(LedgerRow.source == LedgerSource.PAYMENT_TOPUP, PaymentRow.id.is_null())
    )


def _describe_stray(row: Sequence[Any]) -> Discrepancy:
    slug, uuid, cents = row
    return Discrepancy(slug, f"the top-up {uuid} of {cents} cents has no payment of this organization")


def _wrong_refunds() -> peewee.Query:
    """Return the paid payments of which more or less went back than the ledger has."""
    back, entered = refunded(), _entered(LedgerSource.REFUND)
    return (
        PaymentRow.select(OrganizationRow.slug, PaymentRow.session, back, entered)
        .join(OrganizationRow)
        .where(PaymentRow.state == PaymentState.PAID, peewee.Expression(back, "<>", 0 - entered))
    )


def _describe_refund(row: Sequence[Any]) -> Discrepancy:
    slug, session, back, entered = row
    return Discrepancy(
        slug, f"payment {session} has refunds of {-entered} cents in the ledger, the provider reports {back}"
    )


def _entered(source: LedgerSource) -> peewee.Function:
    """Return the sum of a payment's entries, for a query of payments."""
    return _sum(
        LedgerRow.amount_cents,
        LedgerRow.payment == PaymentRow.id,
        LedgerRow.organization == PaymentRow.organization,
        LedgerRow.source == source,
    )


def _sum(column: peewee.Field[int], *where: peewee.Node) -> peewee.Function:
    """Return the sum of a column's values, 0 if there are none."""
    return peewee.fn.COALESCE(column.model.select(peewee.fn.SUM(column)).where(*where), 0)


def refunded() -> peewee.Node:
    """Return the cents of a payment that went back, for a query of payments.

    The provider tells single refunds and totals. The larger of both is what was refunded; what of it failed came back.
    """
    known = PaymentRefundRow.select(peewee.fn.COALESCE(peewee.fn.SUM(PaymentRefundRow.amount_cents), 0)).where(
        PaymentRefundRow.intent == PaymentRow.intent
    )
    total = PaymentTotalRow.select(PaymentTotalRow.refunded_cents).where(PaymentTotalRow.intent == PaymentRow.intent)
    largest = peewee.fn.MAX(known, peewee.fn.COALESCE(total, 0))
    return peewee.Expression(largest, "-", known.where(PaymentRefundRow.failed == 1))
