# ruff: noqa: D106 - a model's Meta only names its table
"""Idempotency keys of requests."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, UserRow
from storage.models.builds import BuildRow
from storage.models.fields import FlagField, InstantField

__all__ = ["KeyRow"]


class KeyRow(peewee.Model):
    """The build that a request with a key created, and the hash of that request."""

    user = peewee.ForeignKeyField(UserRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    key = peewee.TextField()
    request_hash = peewee.BlobField()
    build = peewee.ForeignKeyField(BuildRow)
    rejected = FlagField()
    created_at = InstantField()

    class Meta:
        table_name = "idempotency_keys"
        primary_key = peewee.CompositeKey("user", "organization", "key")
