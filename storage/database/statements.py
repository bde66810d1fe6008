"""Statements: peewee compiles the SQL at the first use; every later use only binds values.

A variable value is a ``slot("name")`` in the peewee query and a keyword argument when the statement runs. Every other
value is a literal in the SQL, so that SQLite can match it to a partial index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import peewee

from storage.data_classes import field_types
from storage.documents import Page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from storage.database.connection import Database

T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")
Read: TypeAlias = Callable[[Any], Any]
SqlValue: TypeAlias = int | str | bytes | None
Part: TypeAlias = "peewee.Field[Any] | Columns[Any] | tuple[peewee.Node, Read]"

NEWEST = 2**63 - 1
"""A key above every row's: the largest integer of SQLite."""


class Columns(Generic[T]):
    """The columns of a record, in the order of its fields.

    A nested record has its own `Columns`. A computed value is a pair of its expression and its conversion.
    """

    def __init__(self, record: Callable[..., T], *parts: Part) -> None:
        self._record = record
        self.selected: list[peewee.Node] = []
        self._reads: list[tuple[int, Read]] = []
        self._nested: list[tuple[int, int, Columns[Any]]] = []
        for position, part in enumerate(parts):
            if isinstance(part, Columns):
                self._nested.append((position, position + len(part.selected), part))
                self.selected += part.selected
                continue
            expression, read = part if isinstance(part, tuple) else (part, getattr(part, "read", None))
            self.selected.append(expression)
            if read is not None:
                self._reads.append((position, read))

    @classmethod
    def of(cls, record: type[R], row: type[peewee.Model], **others: Part) -> Columns[R]:
        """Return the columns of a record: those of ``row`` with the names of its fields, but for ``others``."""
        parts = (others[name] if name in others else getattr(row, name) for name in field_types(record))
        return Columns(record, *parts)

    def __call__(self, row: Sequence[Any]) -> T:
        """Return the record of a row of the selected columns."""
        values = list(row)
        for start, end, columns in self._nested:
            values[start:end] = [columns(values[start:end])]
        for position, read in self._reads:
            if values[position] is not None:
                values[position] = read(values[position])
        return self._record(*values)


class Slots(Generic[T]):
    """The values of a record, in the slots of a row's columns; fields without a column are left out.

    A nested record has its own `Slots`.
    """

    def __init__(self, record: type[DataclassInstance], row: type[peewee.Model], **nested: Slots[Any]) -> None:
        known = row._meta.combined  # noqa: SLF001 - where peewee keeps a model's fields by name
        self.columns = {name: known[name] for name in field_types(record) if name in known}
        """The columns by the path to their value in a record."""

        for name, slots in nested.items():
            self.columns |= {f"{name}.{path}": column for path, column in slots.columns.items()}
        self._get = attrgetter(*self.columns)
        self._names = [column.column_name for column in self.columns.values()]
        writes = {column.column_name: getattr(column, "write", None) for column in self.columns.values()}
        self._writes = [(name, write) for name, write in writes.items() if write is not None]

    def __call__(self, record: T) -> dict[str, SqlValue]:
        """Return the values of a record by slot."""
        values = dict(zip(self._names, self._get(record), strict=True))
        for name, write in self._writes:
            value = values[name]
            if value is not None:
                values[name] = write(value)
        return values


class _Statement:
    """A query that is made and compiled at its first use, because most processes use few of the queries."""

    def __init__(self, database: Database, make: Callable[[], peewee.Query]) -> None:
        self._database = database
        self._make = make

    @cached_property
    def sql(self) -> str:
        """The SQL, with its slots."""
        context = peewee.SqliteDatabase(None).get_sql_context(value_literals=True)
        sql, _ = context.sql(self._make()).query()  # type: ignore[no-untyped-call] # peewee's stubs leave it open
        return str(sql)


class Query(_Statement, Generic[T]):
    """A statement that returns rows; it may also write them."""

    def __init__(self, database: Database, make: Callable[[], peewee.Query], row: Callable[[Sequence[Any]], T]) -> None:
        super().__init__(database, make)
        self._row = row

    def one(self, **slots: SqlValue) -> T | None:
        """Return the first row's record; None if there is no row."""
        rows = self._database.execute(self.sql, slots).fetchall()
        return self._row(rows[0]) if rows else None

    def all(self, **slots: SqlValue) -> list[T]:
        """Return every row's record."""
        return [self._row(row) for row in self._database.execute(self.sql, slots)]

    def page(self, limit: int, key: Callable[[T], int], **slots: SqlValue) -> Page[T]:
        """Return the records of the first ``limit`` rows; one more row is read to learn if others follow."""
        rows = self.all(limit=limit + 1, **slots)
        kept = tuple(rows[:limit])
        return Page(kept, key(kept[-1]) if len(rows) > limit else None)


class Write(_Statement):
    """A statement that writes, and returns no rows."""

    def run(self, **slots: SqlValue) -> int:
        """Run the statement; return how many rows changed."""
        self._database.execute(self.sql, slots)
        return self._database.changes()

    def insert(self, **slots: SqlValue) -> int:
        """Insert one row; return its id."""
        self._database.execute(self.sql, slots)
        return self._database.last_id()

    def run_many(self, rows: Iterable[Mapping[str, SqlValue]]) -> None:
        """Run the statement once for each mapping of slots to values."""
        self._database.execute_many(self.sql, rows)


def slot(name: str) -> peewee.SQL:
    """Return a named placeholder, whose value is given when the statement runs."""
    return peewee.SQL(f":{name}")


def insert_into(model: type[peewee.Model], *without: str) -> peewee.Insert:
    """Return an INSERT of one row, with a slot for each column except its id and those in ``without``."""
    fields = (
        field
        for field in model._meta.sorted_fields  # noqa: SLF001 - where peewee documents a model's fields
        if not isinstance(field, peewee.AutoField)
    )
    return model.insert({field: slot(field.column_name) for field in fields if field.column_name not in without})


def first(row: Sequence[int]) -> int:
    """Return a row's first column, an integer."""
    return row[0]


def written(record: T | None) -> T:
    """Return the record of a row that this transaction wrote, and which therefore exists."""
    if record is None:
        raise AssertionError("a row that this transaction wrote is not there")
    return record
