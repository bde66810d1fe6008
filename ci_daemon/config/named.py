"""Sections whose names the configuration chooses: a table of tables, such as ``[identity.oidc.NAME]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import DataclassInstance

_NAME = re.compile(r"(?=.{1,40}$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)

NAME_RULE = "a name of lower-case letters, digits and single hyphens, of at most 40 characters"
"""The rule of `is_section_name`. A variable has an underscore for a hyphen, and so names one section."""


def is_section_name(name: str) -> bool:
    """Tell whether a configuration may give a section this name."""
    return _NAME.fullmatch(name) is not None


def section_type(hint: object) -> type[DataclassInstance] | None:
    """Return the settings class of an annotated type that maps names to sections; None for any other type."""
    if get_origin(hint) is not Mapping:
        return None
    section = get_args(hint)[1]
    return section if isinstance(section, type) and is_dataclass(section) else None


def named_section(section: Any, name: str) -> type[DataclassInstance] | None:  # noqa: ANN401 - a dataclass, of any kind
    """Return the settings class of a field that maps names to sections; None for any other field."""
    if not isinstance(getattr(section, name), Mapping):
        return None  # without its type, which takes long to find out
    return section_type(get_type_hints(type(section))[name])


def named_sections(section: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type]]:  # noqa: ANN401 - a dataclass, of any kind
    """Yield the place of every table of named sections within a section, and their settings class."""
    for each in fields(section):
        value, keys = getattr(section, each.name), (*above, each.name)
        if is_dataclass(value):
            yield from named_sections(value, keys)
        elif (named := named_section(section, each.name)) is not None:
            yield keys, named
