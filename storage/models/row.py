"""Rows: models whose columns are made from the fields of the record that a row holds.

A column ``read``s its value to a record's, and ``write``s a record's to its own, where SQLite has no such type.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from json import dumps, loads
from typing import TYPE_CHECKING, Any

import peewee

from storage.data_classes import field_types
from storage.database.clock import from_micros, to_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping


_NO_ITEMS = "[]"


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

    @staticmethod
    def write(value: Mapping[str, object]) -> str:
        """Return a column's text. Most objects are empty."""
        return dumps(value) if value else "{}"


class ListField(peewee.TextField):
    """A JSON array; a tuple in records."""

    @staticmethod
    def read(text: str) -> tuple[str, ...]:
        """Return the items of a column's text."""
        return tuple(loads(text)) if text != _NO_ITEMS else ()

    @staticmethod
    def write(items: tuple[Any, ...]) -> str:
        """Return a column's text. Most arrays are empty."""
        return dumps(items) if items else _NO_ITEMS


class ChoiceField(peewee.TextField):
    """One value of an enum."""

    read: Callable[[str], StrEnum]

    def __init__(self, choices: type[StrEnum], *, null: bool = False) -> None:
        super().__init__(null=null)
        self.by_value = {choice.value: choice for choice in choices}
        self.read = self.by_value.__getitem__


_BY_TYPE: dict[str, type[peewee.Field[Any]]] = {
    "int": peewee.IntegerField,
    "str": peewee.TextField,
    "bytes": peewee.BlobField,
    "bool": FlagField,
    "datetime": InstantField,
    "Mapping[str, object]": JsonField,
    "Mapping[str, str]": JsonField,
    "tuple[str, ...]": ListField,
    "tuple[Any, ...]": ListField,
}
"""The columns for the fields of records, by type as the records write it."""


class _RowType(peewee.ModelBase):
    """Makes the models.

    ``table`` has a column for each field of ``record``. Columns that the class declares are added, or replace those of
    the same name. ``joined`` names the fields that other tables give. ``key`` is a primary key of several columns;
    without it, it is ``id``.
    """

    def __new__(  # noqa: PYI034 - a metaclass has no Self
        cls,
        name: str,
        bases: tuple[type, ...],
        declared: dict[str, Any],
        *,
        table: str = "",
        record: type | None = None,
        joined: Collection[str] = (),
        key: tuple[str, ...] = (),
    ) -> _RowType:
        columns = (getattr(each, "column_name", None) for each in declared.values())
        known = {*joined, *declared, *(f"{each}_id" for each in declared), *filter(None, columns)}
        made = dict(_columns(record, known)) if record else {}
        meta: dict[str, object] = {"table_name": table} if table else {"primary_key": False}
        if key:
            meta["primary_key"] = peewee.CompositeKey(*key)
        elif table and not any(getattr(each, "primary_key", False) for each in declared.values()):
            made["id"] = peewee.AutoField()  # not that of `peewee.Model`, of which each model would be given a copy
        return super().__new__(cls, name, bases, made | declared | {"Meta": type("Meta", (), meta)})  # type: ignore[no-any-return, no-untyped-call]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> peewee.Field[Any]: ...


class Row(peewee.Model, metaclass=_RowType):
    """A row of a table, bound to no database."""


def _columns(record: type, known: Collection[str]) -> Iterator[tuple[str, peewee.Field[Any]]]:
    names = vars(sys.modules[record.__module__])
    for name, written in field_types(record).items():
        if name in known or name == "id":
            continue
        kind = written.removesuffix(" | None")
        null = kind != written
        if kind in _BY_TYPE:
            yield name, _BY_TYPE[kind](null=null)
        elif issubclass(names[kind], StrEnum):
            yield name, ChoiceField(names[kind], null=null)
        else:
            yield from _columns(names[kind], known)
