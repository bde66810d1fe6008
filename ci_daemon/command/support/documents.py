"""Records as documents: the JSON of commands, and the rows of their tables."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from ci_daemon.command.support.timestamps import timestamp

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["document_of"]


def document_of(record: DataclassInstance) -> dict[str, object]:
    """Return the fields of a data class, with instants and states as text."""
    return {name: _plain(value) for name, value in asdict(record).items()}


def _plain(value: object) -> object:
    match value:
        case datetime():
            return timestamp(value)
        case Enum():
            return value.value
        case _:
            return value
