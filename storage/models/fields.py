"""Column types beyond SQLite's own; ``read`` converts a column's value to a record's."""

from __future__ import annotations

from json import loads
from typing import TYPE_CHECKING

import peewee

from storage.instants import from_micros

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

__all__ = ["ChoiceField", "FlagField", "InstantField", "JsonField", "ListField"]


class InstantField(peewee.BigIntegerField):
    """Microseconds since the epoch; an aware datetime in records."""

    read = staticmethod(from_micros)


class FlagField(peewee.IntegerField):
    """0 or 1; a bool in records."""

    read = bool


class JsonField(peewee.TextField):
    """A JSON object."""

    read = staticmethod(loads)


class ListField(peewee.TextField):
    """A JSON array of strings; a tuple in records."""

    @staticmethod
    def read(text: str) -> tuple[str, ...]:
        """Return the strings of a column's text."""
        return tuple(loads(text))


class ChoiceField(peewee.TextField):
    """One value of an enum."""

    read: Callable[[str], StrEnum]

    def __init__(self, choices: type[StrEnum], *, null: bool = False) -> None:
        super().__init__(null=null)
        self.by_value = {choice.value: choice for choice in choices}
        self.read = self.by_value.__getitem__
