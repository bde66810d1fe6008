"""All tables, as models."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import peewee

from storage import models
from storage.models.row import Row


def all_models() -> list[type[Row]]:
    """Return the model of each table."""
    for module in pkgutil.iter_modules(models.__path__):
        import_module(f"{models.__name__}.{module.name}")
    return Row.__subclasses__()


def fields_of(model: type[Row]) -> list[peewee.Field]:
    """Return the fields of a model, in the order of its table."""
    return list(model._meta.sorted_fields)  # noqa: SLF001 - where peewee documents a model's fields


def table_of(model: type[Row]) -> str:
    """Return the name of a model's table."""
    return str(model._meta.table_name)  # noqa: SLF001 - where peewee documents it
