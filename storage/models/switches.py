"""Switches of the owner, the progress of the trace export, and the clocks as a service saw them last."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField
from storage.models.row import Row


class SwitchRow(Row, table="switches"):
    """A switch that is on."""

    name = peewee.TextField(primary_key=True)
    turned_on_at = InstantField()


class TracesSentRow(Row, table="traces_sent"):
    """The instant up to which the traces of ended builds were sent."""

    until = InstantField()


class ClockRow(Row, table="clock"):
    """The clocks as the service saw them last; `set_by` is a large step that the owner has not confirmed."""

    boot = peewee.TextField()
    seen_at = peewee.BigIntegerField()
    seen_uptime = peewee.BigIntegerField()
    segments = peewee.TextField()
    trusted = peewee.BigIntegerField()
    set_at = peewee.BigIntegerField(null=True)
    set_by = peewee.BigIntegerField(null=True)
