"""The append-only ledger, in whole cents; a trigger keeps the balances (wire-decisions.md, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.billing.verification import LedgerVerification
from storage.database.statements import NEWEST, Columns, Query, Write, first, insert_into, slot, written
from storage.models import BuildRow, JobRow, LeaseRow, LedgerRow, OrganizationRow, PipelineRow, RerunDebitRow
from storage.records import Discrepancy, LedgerEntry, LedgerSource, Page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.database.connection import Database

_ENTRY = Columns.of(LedgerEntry, LedgerRow)
_BATCH = 1000


class Ledger:
    """Each organization's credits and debits. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        of_organization = LedgerRow.organization == slot("organization_id")
        entries = LedgerRow.select(*_ENTRY.selected)
        self._by_id = Query(database, entries.where(LedgerRow.id == slot("id")), _ENTRY)
        self._page = Query(
            database,
            entries.where(of_organization, LedgerRow.id < slot("after"))
            .order_by(LedgerRow.id.desc())
            .limit(slot("limit")),
            _ENTRY,
        )
        self._after = Query(
            database,
            entries.where(of_organization, LedgerRow.id > slot("after")).order_by(LedgerRow.id).limit(_BATCH),
            _ENTRY,
        )
        self._balance = Query(
            database,
            OrganizationRow.select(OrganizationRow.balance_cents).where(OrganizationRow.id == slot("organization_id")),
            first,
        )
        overdrawn = peewee.fn.TOTAL(OrganizationRow.balance_cents < 0)
        self._totals = Query(
            database,
            OrganizationRow.select(peewee.fn.COALESCE(peewee.fn.SUM(OrganizationRow.balance_cents), 0), overdrawn),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._insert = Write(database, insert_into(LedgerRow))
        self._insert_rerun = Write(database, insert_into(RerunDebitRow))
        started = LeaseRow.started_at.is_null(is_null=False)
        self._job_total = Query(
            database,
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
            .group_by(JobRow.id),
            tuple,
        )
        self._job_name = Query(
            database,
            JobRow.select(JobRow.organization, PipelineRow.slug, BuildRow.number, JobRow.step_key)
            .join(BuildRow)
            .join(PipelineRow)
            .where(JobRow.id == slot("job_id")),
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

    def debit_hold(self, job_id: int, cents: int) -> int:
        """Append the debit of a hold that just ended, even of 0 cents; return the entry's id.

        Part of the caller's transaction.
        """
        organization_id, pipeline, number, step_key = written(self._job_name.one(job_id=job_id))
        description = f"{pipeline} #{number} {step_key}, held"
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
