# ruff: noqa: D106 - a model's Meta only names its table
"""Leased VMs, their snapshots, and the ledger."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, JobRow
from storage.models.fields import ChoiceField, FlagField, InstantField
from storage.records import LeaseState, LedgerSource

__all__ = ["LeaseRow", "LedgerRow", "SnapshotRow"]


class LeaseRow(peewee.Model):
    """The lease of one VM."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow, null=True)
    job = peewee.ForeignKeyField(JobRow, null=True)
    attempt = peewee.IntegerField()
    provider = peewee.TextField()
    image = peewee.TextField(null=True)
    cpu = peewee.IntegerField()
    memory_gb = peewee.IntegerField()
    disk_gb = peewee.IntegerField()
    network = FlagField()
    state = ChoiceField(LeaseState)
    created_at = InstantField()
    started_at = InstantField(null=True)
    finished_at = InstantField(null=True)
    amount_cents = peewee.IntegerField()
    build = peewee.ForeignKeyField(BuildRow, null=True)
    boot = peewee.TextField(null=True)
    started_uptime = peewee.BigIntegerField(null=True)
    killed_by = peewee.TextField(null=True)
    seen_at = InstantField(null=True)

    class Meta:
        table_name = "leases"


class LedgerRow(peewee.Model):
    """One entry of the ledger; never changed, never deleted."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    amount_cents = peewee.IntegerField()
    source = ChoiceField(LedgerSource)
    description = peewee.TextField(null=True)
    job = peewee.ForeignKeyField(JobRow, null=True)
    created_at = InstantField()

    class Meta:
        table_name = "ledger_entries"


class SnapshotRow(peewee.Model):
    """A job's disk, kept by a provider."""

    id = peewee.AutoField()
    name = peewee.TextField()
    job = peewee.ForeignKeyField(JobRow)
    provider = peewee.TextField()
    created_at = InstantField()
    base = peewee.TextField(null=True)
    bytes = peewee.IntegerField(null=True)

    class Meta:
        table_name = "snapshots"
