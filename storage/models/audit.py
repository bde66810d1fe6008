"""The audit."""

from __future__ import annotations

from storage.models.row import Row
from storage.records import AuditEntry

__all__ = ["AuditRow"]


class AuditRow(Row, table="audit_entries", record=AuditEntry):
    """One entry; never changed, and deleted only when it is the oldest."""
