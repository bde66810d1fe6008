"""Records as documents: the fields that the API and the command show, declared at the record.

By convention ``id`` is a row's key, which nobody is shown, and ``uuid`` is shown as ``id``. A field with another name
on the wire, or with none, says so; a property that is shown says behind which field.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from storage.data_classes import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
Getter = TypeVar("Getter", bound="Callable[[Any], object]")

_TIMES: Mapping[str, type[date]] = {"date": date, "datetime": datetime}
_PLAIN: Mapping[str, type] = {"int": int, "str": str, "bool": bool, "float": float, "Uuid": str}

Uuid: TypeAlias = str
"""A UUID as text, which the wire describes as one."""


@immutable
class Page(Generic[T]):
    """One page of a list; ``next_key`` is the last row's key if more rows follow, else None."""

    rows: tuple[T, ...]
    next_key: int | None


def shown_after(name: str) -> Callable[[Getter], Getter]:
    """Declare that the property made of a function is shown, behind the field ``name``."""

    def declare(getter: Getter) -> Getter:
        getter.shown_after = name  # type: ignore[attr-defined] # functions take attributes
        return getter

    return declare


@immutable
class ShownField:
    """A field of a record as it is shown.

    It has a name there, an attribute that has its value, and a type as it is written in the record.
    A ``stored`` one is an argument of the record; the others follow from those. An ``example`` of None is none;
    ``about`` is a sentence for the document of the API.
    """

    name: str
    attribute: str
    type: str
    stored: bool = True
    example: object = None
    about: str | None = None

    @property
    def nullable(self) -> bool:
        """True if it may be None."""
        return self.type.endswith(" | None")

    @property
    def kind(self) -> str:
        """The type without None."""
        return self.type.removesuffix(" | None")


@cache
def shown_fields(record: Any) -> tuple[ShownField, ...]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the fields that are shown of a record, in order."""
    behind: dict[str, list[ShownField]] = {}
    for name, value in chain.from_iterable(vars(each).items() for each in reversed(record.__mro__)):
        getter = getattr(value, "fget", None)
        if (after := getattr(getter, "shown_after", None)) is not None:
            shown = ShownField(name, name, getter.__annotations__["return"], stored=False)
            behind.setdefault(after, []).append(shown)
    return tuple(_in_order(record, behind))


def _in_order(record: type, behind: Mapping[str, list[ShownField]]) -> Iterator[ShownField]:
    for each in fields(record):
        if each.name != "id" and not each.metadata.get("hidden"):
            usual = "id" if each.name == "uuid" else each.name
            name, example = each.metadata.get("shown_as", usual), each.metadata.get("example")
            yield ShownField(name, each.name, str(each.type), example=example, about=each.metadata.get("about"))
        yield from behind.get(each.name, ())


def showing(record: type[T], stored: object, **others: object) -> T:
    """Return a record that shows a stored one: its fields by name, but the values in ``others``."""
    kind: Any = record
    taken = {name: getattr(stored, name) for name in _field_names(kind) if name not in others}
    return record(**taken, **others)


@cache
def _field_names(record: Any) -> tuple[str, ...]:  # noqa: ANN401 - mypy takes no class for hashable
    return tuple(each.name for each in fields(record))


def document_of(record: object) -> dict[str, object]:
    """Return what is shown of a record, as JSON has it."""
    kind: Any = type(record)
    return {each.name: _plain(getattr(record, each.attribute)) for each in shown_fields(kind)}


def record_of(record: type[T], document: object) -> T:
    """Return a record whose hidden fields are not set, from the document that a service sent.

    Other keys are ignored, so that a newer service may show more. Raises ValueError if it is no such document.
    """
    if not isinstance(document, dict):
        raise ValueError(f"expected an object for a {record.__name__}")
    kind: Any = record
    made = object.__new__(record)
    for each in shown_fields(kind):
        if each.stored:
            object.__setattr__(made, each.attribute, _value(record, each, document.get(each.name)))
    return made


def timestamp(at: datetime) -> str:
    """Return an aware instant as ISO 8601 in UTC with six digits and a Z."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _plain(value: object) -> object:
    match value:
        case datetime():
            return timestamp(value)
        case date():
            return value.isoformat()
        case Enum():
            return value.value
        case tuple():
            return [_plain(each) for each in value]
        case Mapping():
            return dict(value)
        case _:
            return document_of(value) if is_dataclass(value) else value


def _value(record: type, shown: ShownField, value: object) -> object:
    """Return the value of a field. Raises ValueError if the document's has another type."""
    if value is None and shown.nullable:
        return None
    if shown.kind in _TIMES and isinstance(value, str):
        return _TIMES[shown.kind].fromisoformat(value)
    if (plain := _PLAIN.get(shown.kind)) is not None and isinstance(value, plain):
        return value
    if shown.kind == "Warnings" and isinstance(value, list):
        return tuple(value)
    if shown.kind.startswith("Mapping[") and isinstance(value, dict):
        return value
    if shown.kind.startswith("tuple[") and isinstance(value, list):
        item = ShownField(shown.name, shown.attribute, shown.kind.removeprefix("tuple[").removesuffix(", ...]"))
        return tuple(_value(record, item, each) for each in value)
    kind = vars(sys.modules[record.__module__]).get(shown.kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(value, str):
        return kind(value)
    if isinstance(kind, type) and is_dataclass(kind):
        return record_of(kind, value)
    raise ValueError(f"{shown.name}: expected {shown.type}, not {value!r:.100}")
