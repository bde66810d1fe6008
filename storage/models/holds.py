"""VMs that outlive their jobs, for debugging."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import JobRow
from storage.models.leases import LeaseRow, LedgerRow
from storage.models.row import Row
from storage.records import Hold

__all__ = ["HoldRow"]


class HoldRow(Row, table="holds", record=Hold, joined=("vm",)):
    """The hold of one VM, from its job's end to the VM's end."""

    lease = peewee.ForeignKeyField(LeaseRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    job = peewee.ForeignKeyField(JobRow)
    entry = peewee.ForeignKeyField(LedgerRow, null=True)
