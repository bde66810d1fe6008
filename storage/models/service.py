"""Rows of the service itself: switches, the trace export, the clocks as last seen, and the audit."""

from __future__ import annotations

import peewee

from storage.models.row import InstantField, Row
from storage.records.audit import AuditEntry


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


class IssuerKeyRow(Row, table="issuer_keys"):
    """A key that signs identity tokens; ``private_key`` is sealed."""

    uuid = peewee.TextField()
    public_key = peewee.TextField()
    private_key = peewee.BlobField()
    created_at = InstantField()


class AuditRow(Row, table="audit_entries", record=AuditEntry):
    """One entry; never changed, and deleted only when it is the oldest."""


class AuditSetBackRow(Row, table="audit_set_back"):
    """The most microseconds by which an entry is earlier than one before it; a trigger keeps it."""

    largest = peewee.BigIntegerField()
