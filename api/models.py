"""Models of records and bodies: their JSON, their schemas, and the check of a body."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from api import fields
from api.body import ABSENT, BodyField, body_fields
from api.errors.catalog import ApiError
from storage import JsonModel, shown_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_core import ErrorDetails

    from api.operations.operation import Whole

_PLAIN = frozenset({str, int, float, bool, type(None)})

B = TypeVar("B")
Body = TypeVar("Body", bound=BaseModel)

_KEY = "[key]"
"""The last part of a location in pydantic's errors if the fault is in an object's key, not its value."""

_EXPECTED = {
    "missing": "expected a value, the field is required",
    "string_type": "expected a string",
    "too_long": "expected at most {max_length}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_too_long": "expected at most {max_length} characters",
    "string_too_short": "expected at least {min_length} characters",
    "string_pattern_mismatch": "expected a string that matches {pattern}",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "list_type": "expected an array",
    "literal_error": "expected {expected}",
    "value_error": "{error}",
}

_TYPES: Mapping[str, object] = MappingProxyType(
    {
        "datetime": fields.Timestamp,
        "date": fields.Day,
        "Uuid": fields.Uuid,
        "Mapping": Mapping,
        "Warnings": fields.Warnings,
        "LoginCode": fields.LoginCode,
        "ProviderKind": fields.ProviderKind,
    }
)
"""The types of fields by their names in records, whose modules import them for type checkers alone."""


class RequestBody(JsonModel):
    """A request body. Types are not converted, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class StoredRecord(JsonModel):
    """Base of the models that are made of records."""

    @classmethod
    def showing(cls, stored: object) -> Self:
        """Return the model of a record, as the record declares it."""
        kind: Any = type(stored)
        names, values_of = _shown_values(kind)
        values = [each if type(each) in _PLAIN else _shown(each) for each in values_of(stored)]
        shown: Self = cls.__pydantic_validator__.validate_python(dict(zip(names, values, strict=True)))
        return shown


@cache
def _shown_values(record: Any) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the names of the fields that are shown of a record, and what returns their values."""
    shown = shown_fields(record)
    get = attrgetter(*(each.attribute for each in shown))
    return tuple(each.name for each in shown), get if len(shown) > 1 else lambda stored: (get(stored),)


def _shown(value: object) -> object:
    """Return the value of a field for a model; a record becomes its model."""
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    kind: Any = type(value)
    return model_of(kind).showing(value) if hasattr(kind, "__dataclass_fields__") else value


@cache
def model_of(record: Any) -> type[StoredRecord]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the model of the class of a record (`storage.documents`): its JSON, and its schema."""
    names = {**vars(sys.modules[record.__module__]), **_TYPES}
    shown: dict[str, Any] = {}
    for each in shown_fields(record):
        kind: Any = fields.Uuid if each.attribute.endswith("uuid") else _modelled(eval(each.kind, names))  # noqa: S307 - written in the record
        kind = kind | None if each.nullable else kind
        described = Field(examples=[each.example], description=each.about)
        shown[each.name] = (kind if each.example is None else Annotated[kind, described], ...)
    made: type[StoredRecord] = create_model(
        f"{_noun(record)}Record", __base__=StoredRecord, __doc__=record.__doc__, __module__=record.__module__, **shown
    )
    return made


def _modelled(kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type of a model's field for the type of a record's field."""
    if get_origin(kind) is tuple:
        item: Any = _modelled(get_args(kind)[0])
        return tuple[item, ...]
    if dataclasses.is_dataclass(kind):
        record: Any = kind
        return model_of(record)
    return kind


@cache
def list_model_of(record: Any, whole: Whole) -> Any:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the model of a whole list of records."""
    kind: Any = model_of(record)
    rows: dict[str, Any] = {whole.key: (list[kind], ...)}
    name, module = whole.name or f"{_noun(record)}List", record.__module__
    return create_model(name, __base__=JsonModel, __doc__=whole.description, __module__=module, **rows)


def _noun(record: type) -> str:
    """Return the noun of a record, by which the document names it."""
    return record.__name__.removesuffix("Record")


@cache
def body_model_of(body: Any) -> type[RequestBody]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the model of the class of a body, whose types are those of `api.fields`."""
    types = get_type_hints(body, {**vars(fields), **vars(sys.modules[body.__module__])}, include_extras=True)
    declared: dict[str, Any] = {
        each.name: (_described(each, _with_choices(types[each.name])), _default(each.default))
        for each in body_fields(body).values()
    }
    made: type[RequestBody] = create_model(
        body.__name__, __base__=RequestBody, __doc__=body.__doc__, __module__=body.__module__, **declared
    )
    return made


def _with_choices(kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type of a field; that of an enum takes its values, and gives its members."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Annotated[Literal[tuple(each.value for each in kind)], AfterValidator(kind)]
    if get_origin(kind) in {Union, UnionType}:
        return Union[tuple(map(_with_choices, get_args(kind)))]  # noqa: UP007 - made of any number
    return kind


def _described(field: BodyField, kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type of a field with its description and bounds."""
    if field.about is None:
        return kind
    least, greatest = field.bounds or (None, None)
    return Annotated[kind, Field(description=field.about, ge=least, le=greatest)]


def _default(value: object) -> Any:  # noqa: ANN401 - as pydantic takes it
    """Return the default of a field in a model; the schema shows none of an absent one."""
    if value is dataclasses.MISSING:
        return ...
    return Field(default_factory=lambda: ABSENT) if value is ABSENT else value


def body_of(document: object, body: type[B]) -> B:
    """Return the parsed body as an object of its class. Raises ApiError ``invalid_body``."""
    kind: Any = body
    checked = check_body(document, body_model_of(kind))
    made: B = kind(**{name: getattr(checked, name) for name in type(checked).__pydantic_fields__})
    return made


def check_body(document: object, model: type[Body]) -> Body:
    """Return the parsed body as the model. Raises ApiError ``invalid_body`` for its first fault."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ApiError("invalid_body", f"{json_path(fault['loc'])}: {_expected(fault)}") from None


def json_path(location: Sequence[int | str]) -> str:
    """Return a location in a document: ``env.PATH``, ``items[3].name``, or ``$`` for the document itself."""
    named = location[:-1] if location and location[-1] == _KEY else location
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in named)
    return path.removeprefix(".") or "$"


def _expected(fault: ErrorDetails) -> str:
    sentence = _EXPECTED.get(fault["type"])
    return fault["msg"] if sentence is None else sentence.format_map(fault.get("ctx", {}))
