"""Identities of users at identity providers."""

from __future__ import annotations

import peewee

from storage.models.accounts import UserRow
from storage.models.row import Row
from storage.records import Identity

__all__ = ["IdentityRow"]


class IdentityRow(Row, table="identities", record=Identity):
    """A user's identity at a provider."""

    user = peewee.ForeignKeyField(UserRow)
