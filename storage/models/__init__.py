"""The tables as peewee sees them, bound to no database. The migrations make them; a test compares the two."""

from __future__ import annotations

from storage.models.accounts import HandoffRow, MembershipRow, OrganizationRow, PipelineRow, TokenRow, UserRow
from storage.models.audit import AuditRow
from storage.models.builds import AttemptRow, BuildRow, EdgeRow, JobRow
from storage.models.leases import LeaseRow, LedgerRow, SnapshotRow

__all__ = [
    "AttemptRow",
    "AuditRow",
    "BuildRow",
    "EdgeRow",
    "HandoffRow",
    "JobRow",
    "LeaseRow",
    "LedgerRow",
    "MembershipRow",
    "OrganizationRow",
    "PipelineRow",
    "SnapshotRow",
    "TokenRow",
    "UserRow",
]
