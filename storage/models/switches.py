# ruff: noqa: D106 - a model's Meta only names its table
"""Switches of the owner."""

from __future__ import annotations

import peewee

from storage.models.fields import InstantField

__all__ = ["SwitchRow"]


class SwitchRow(peewee.Model):
    """A switch that is on."""

    name = peewee.TextField(primary_key=True)
    turned_on_at = InstantField()

    class Meta:
        table_name = "switches"
