# ruff: noqa: D106 - a model's Meta only names its table
"""What operators did by hand."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField

__all__ = ["AuditRow"]


class AuditRow(peewee.Model):
    """One act of an operator; never changed, never deleted."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    at = InstantField()
    actor = peewee.TextField()
    action = peewee.TextField()
    subject = peewee.TextField()
    note = peewee.TextField()

    class Meta:
        table_name = "audit_entries"
