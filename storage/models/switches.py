"""Switches of the owner, and the progress of the trace export."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField
from storage.models.row import Row

__all__ = ["SwitchRow", "TracesSentRow"]


class SwitchRow(Row, table="switches"):
    """A switch that is on."""

    name = peewee.TextField(primary_key=True)
    turned_on_at = InstantField()


class TracesSentRow(Row, table="traces_sent"):
    """The instant up to which the traces of ended builds were sent."""

    until = InstantField()
