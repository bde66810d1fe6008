"""Idempotency keys of requests."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, UserRow
from storage.models.builds import BuildRow
from storage.models.fields import FlagField, InstantField
from storage.models.row import Row
from storage.records.builds import RequestKey


class KeyRow(Row, table="idempotency_keys", record=RequestKey, key=("user", "organization", "key")):
    """The build that a request with a key created, and the hash of that request."""

    user = peewee.ForeignKeyField(UserRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    build = peewee.ForeignKeyField(BuildRow)
    rejected = FlagField()
    created_at = InstantField()
