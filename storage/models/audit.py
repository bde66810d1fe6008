"""The audit."""

from __future__ import annotations

import peewee

from storage.models.row import Row
from storage.records.audit import AuditEntry


class AuditRow(Row, table="audit_entries", record=AuditEntry):
    """One entry; never changed, and deleted only when it is the oldest."""


class AuditSetBackRow(Row, table="audit_set_back"):
    """The most microseconds by which an entry is earlier than one before it; a trigger keeps it."""

    largest = peewee.BigIntegerField()
