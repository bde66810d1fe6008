"""Verification of the ledger against balances, leases, holds and payments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peewee

from storage.billing.refunds import refunded
from storage.database.statements import Query
from storage.models import HoldRow, JobRow, LeaseRow, LedgerRow, OrganizationRow, PaymentRow, RerunDebitRow
from storage.records import Discrepancy, LedgerSource, PaymentState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database


class LedgerVerification:
    """Queries for what the ledger contradicts; each finds nothing in a sound ledger."""

    def __init__(self, database: Database) -> None:
        self._unbalanced = Query(database, _unbalanced(), _describe_balance)
        self._wrong_job_debits = Query(database, _wrong_job_debits(), _describe_job)
        self._wrong_hold_debits = Query(database, _wrong_hold_debits(), _describe_hold)
        self._wrong_topups = Query(database, _wrong_topups(), _describe_topup)
        self._stray_topups = Query(database, _stray_topups(), _describe_stray)
        self._wrong_refunds = Query(database, _wrong_refunds(), _describe_refund)

    def discrepancies(self) -> list[Discrepancy]:
        """Return what was found."""
        debits = self._wrong_job_debits.all() + self._wrong_hold_debits.all()
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
