"""Options of commands that are fields of bodies of operations, and the bodies made of them."""

from __future__ import annotations

from dataclasses import MISSING
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from api.operations import ABSENT, MAX_LONG_TEXT, MAX_TEXT, body_fields
from ci_daemon.command.support.options import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from api.operations import BodyField

F = TypeVar("F", bound="Callable[..., object]")

_DEFAULT = "default"
"""The value of a setting that is left to the next larger unit."""

_YES_OR_NO: Mapping[str, bool] = MappingProxyType({"yes": True, "no": False})
_LENGTHS: Mapping[str, int] = MappingProxyType(
    {"Text": MAX_TEXT, "RequiredText": MAX_TEXT, "LongText": MAX_LONG_TEXT, "RequiredLongText": MAX_LONG_TEXT}
)
"""The lengths of texts of bodies, by their types."""


def body_options(body: type, *names: str) -> Callable[[F], F]:
    """Add an option for each of these fields of a body, as `body_option` does."""

    def add(command: F) -> F:
        for name in reversed(names):
            command = body_option(body, name)(command)
        return command

    return add


def body_option(body: type, name: str, *flags: str, **others: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Add the option for a field of a body, with the sentence, the choices and the bounds of the field.

    ``flags`` are others than ``--name``, ``others`` what only the command says, as its default. An option that is not
    given is ABSENT. Where null leaves a setting to the next larger unit, the option has the value "default".
    """
    field = body_fields(body)[name]
    made: dict[str, Any] = {"help": field.about, "callback": partial(_value, field)}
    if _may_be_left(field):
        made["type"] = click.Choice([*(map(str, field.choices) if field.choices else _YES_OR_NO), _DEFAULT])
    elif field.choices:
        made["type"] = click.Choice([*map(str, field.choices)])
    elif field.kind == "bool":
        positive = f"--{_dashed(name)}"
        flags = flags or (f"{positive}/--no-{_dashed(name)}" if field.default is ABSENT else positive,)
        made |= {"default": None, "is_flag": True}
    elif field.bounds is not None:
        made |= {"type": click.IntRange(*field.bounds), "metavar": field.word}
    else:
        length = _LENGTHS.get(field.kind)
        made |= {"type": None if length is None else one_line(length), "metavar": field.word or "TEXT"}
    required = field.default is MISSING and "default" not in others
    return click.option(*(flags or (f"--{_dashed(name)}",)), name, **{**made, "required": required, **others})


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _may_be_left(field: BodyField) -> bool:
    """Tell whether null leaves a setting to the next larger unit: that of a text only takes the text away."""
    return field.nullable and field.default is ABSENT and (bool(field.choices) or field.kind == "bool")


def _value(field: BodyField, _context: click.Context, _parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return the value of a field that an option gives."""
    if value is None:
        return ABSENT
    if _may_be_left(field) and value == _DEFAULT:
        return None
    if field.choices:
        return field.choices[field.choices.index(value)]
    return _YES_OR_NO.get(value, value) if field.kind == "bool" else value


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of those options that the caller gave."""
    return {name: value for name, value in options.items() if value is not ABSENT}


def settings_in_words(document: Mapping[str, object], names: Iterable[str]) -> str:
    """Return the settings of a document for people, as in "weight 2, fail fast on"."""
    return ", ".join(f"{name.replace('_', ' ')} {_in_words(document[name])}" for name in names)


def _in_words(value: object) -> str:
    if value is None:
        return _DEFAULT
    if isinstance(value, list | tuple):
        return " and ".join(map(str, value)) or "none"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
