# ruff: noqa: D106 - a model's Meta only names its table
"""Progress of the trace export."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField

__all__ = ["TracesSentRow"]


class TracesSentRow(peewee.Model):
    """The instant up to which the traces of ended builds were sent."""

    id = peewee.AutoField()
    until = InstantField()

    class Meta:
        table_name = "traces_sent"
