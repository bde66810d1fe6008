# ruff: noqa: D106 - a model's Meta only names its table
"""The audit."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField

__all__ = ["AuditRow"]


class AuditRow(peewee.Model):
    """One entry; never changed, and deleted only when it is the oldest."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    at = InstantField()
    actor = peewee.TextField()
    action = peewee.TextField()
    subject = peewee.TextField()
    note = peewee.TextField()
    origin = peewee.TextField(null=True)
    organization = peewee.TextField(null=True)

    class Meta:
        table_name = "audit_entries"
