"""Leased VMs, their snapshots, and the ledger."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, JobRow
from storage.models.fields import InstantField
from storage.models.payments import PaymentRow
from storage.models.row import Row
from storage.records import Lease, LedgerEntry, Snapshot

__all__ = ["LeaseRow", "LedgerRow", "RerunDebitRow", "SnapshotRow"]


class LeaseRow(Row, table="leases", record=Lease):
    """The lease of one VM."""

    organization = peewee.ForeignKeyField(OrganizationRow, null=True)
    job = peewee.ForeignKeyField(JobRow, null=True)
    build = peewee.ForeignKeyField(BuildRow, null=True)
    boot = peewee.TextField(null=True)
    started_uptime = peewee.BigIntegerField(null=True)
    killed_by = peewee.TextField(null=True)
    seen_at = InstantField(null=True)


class LedgerRow(Row, table="ledger_entries", record=LedgerEntry):
    """One entry of the ledger; never changed, never deleted."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    job = peewee.ForeignKeyField(JobRow, null=True)
    payment = peewee.ForeignKeyField(PaymentRow, null=True)


class RerunDebitRow(Row, table="rerun_debits"):
    """The debit of a job's run after the first one."""

    entry = peewee.ForeignKeyField(LedgerRow, primary_key=True)
    job = peewee.ForeignKeyField(JobRow)
    attempts_before = peewee.IntegerField()


class SnapshotRow(Row, table="snapshots", record=Snapshot):
    """A job's disk, kept by a provider."""

    job = peewee.ForeignKeyField(JobRow)
