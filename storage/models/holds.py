# ruff: noqa: D106 - a model's Meta only names its table
"""VMs that outlive their jobs, for debugging."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import JobRow
from storage.models.fields import ChoiceField, InstantField
from storage.models.leases import LeaseRow, LedgerRow
from storage.records import HoldEnd

__all__ = ["HoldRow"]


class HoldRow(peewee.Model):
    """The hold of one VM, from its job's end to the VM's end."""

    id = peewee.AutoField()
    lease = peewee.ForeignKeyField(LeaseRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    job = peewee.ForeignKeyField(JobRow)
    started_at = InstantField()
    until = InstantField()
    micro_cents = peewee.IntegerField()
    reason = ChoiceField(HoldEnd, null=True)
    finished_at = InstantField(null=True)
    amount_cents = peewee.IntegerField()
    entry = peewee.ForeignKeyField(LedgerRow, null=True)

    class Meta:
        table_name = "holds"
