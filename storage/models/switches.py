"""Switches of the owner."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField
from storage.models.row import Row

__all__ = ["SwitchRow"]


class SwitchRow(Row, table="switches"):
    """A switch that is on."""

    name = peewee.TextField(primary_key=True)
    turned_on_at = InstantField()
