"""Documents of commands: their JSON, the rows of their tables, and the bodies that they send."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from ci_daemon.command.support.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance


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


def given(options: Mapping[str, object]) -> dict[str, object]:
    """Return the body of those options that the caller gave."""
    return {name: value for name, value in options.items() if value is not None}
