"""All tables, as models."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from storage import models
from storage.models.row import Row


def all_models() -> list[type[Row]]:
    """Return the model of each table."""
    for module in pkgutil.iter_modules(models.__path__):
        import_module(f"{models.__name__}.{module.name}")
    return Row.__subclasses__()
