# ruff: noqa: D106 - a model's Meta only names its table
"""How far those are who follow what the service does."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField

__all__ = ["TracesSentRow"]


class TracesSentRow(peewee.Model):
    """Up to which build's end traces were sent."""

    id = peewee.AutoField()
    until = InstantField()

    class Meta:
        table_name = "traces_sent"
