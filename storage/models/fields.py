"""Column types beyond SQLite's own.

``read`` converts a column's value to a record's, ``write`` a record's to a column's.
"""

from __future__ import annotations

from json import dumps, loads
from typing import TYPE_CHECKING

import peewee

from storage.database.clock import from_micros, to_micros

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum


class InstantField(peewee.BigIntegerField):
    """Microseconds since the epoch; an aware datetime in records."""

    read = staticmethod(from_micros)
    write = staticmethod(to_micros)


class FlagField(peewee.IntegerField):
    """0 or 1; a bool in records."""

    read = bool


class JsonField(peewee.TextField):
    """A JSON object."""

    read = staticmethod(loads)
    write = staticmethod(dumps)


class ListField(peewee.TextField):
    """A JSON array; a tuple in records."""

    write = staticmethod(dumps)

    @staticmethod
    def read(text: str) -> tuple[str, ...]:
        """Return the items of a column's text."""
        return tuple(loads(text))


class ChoiceField(peewee.TextField):
    """One value of an enum."""

    read: Callable[[str], StrEnum]

    def __init__(self, choices: type[StrEnum], *, null: bool = False) -> None:
        super().__init__(null=null)
        self.by_value = {choice.value: choice for choice in choices}
        self.read = self.by_value.__getitem__
