"""Reports of pushes by the hosts of repositories."""

from __future__ import annotations

import peewee

from storage.models.repositories import RepositoryRow
from storage.models.row import Row
from storage.records import Delivery

__all__ = ["DeliveryRow"]


class DeliveryRow(Row, table="deliveries", record=Delivery):
    """A report of a push, as it came."""

    repository = peewee.ForeignKeyField(RepositoryRow)
