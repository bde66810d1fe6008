"""Validation of given settings by the types and ranges of keys, and their form in TOML.

Some sections have names that the configuration chooses, in a table of tables such as ``[identity.oidc.NAME]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from storage import Range, immutable, pattern, setting_declaration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import DataclassInstance

Keys = tuple[str, ...]
T = TypeVar("T", bound="DataclassInstance")

_ACCEPTED: Mapping[object, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    Path: (str,),
}
"""The types of TOML values for a key of each type."""

_NOUNS: Mapping[object, str] = {int: "whole number", float: "number", str: "string", Path: "path"}

_NAME = pattern(r"(?=.{1,40}$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)

NAME_RULE = "a name of lower-case letters, digits and single hyphens, of at most 40 characters"
"""The rule of `is_section_name`. A variable has an underscore for a hyphen, and so names one section."""


@immutable
class InvalidSetting:
    """An error message about a key or value, and its place."""

    keys: Keys
    message: str


@dataclass(slots=True)
class Validation:
    """One pass over given tables, with the errors that it finds.

    A relative path is relative to ``base``; ``known`` are all keys; ``replaced`` maps keys of earlier releases to those
    that came in their place.
    """

    base: Path
    known: Iterable[Keys]
    replaced: Mapping[Keys, Keys]
    errors: list[InvalidSetting] = field(default_factory=list)

    def validate(self, settings: T, given: object, keys: Keys = ()) -> T:
        """Return settings with the values of a table; without them if there is an error in it.

        Args:
            settings: a dataclass whose fields are keys, or dataclasses of keys; it raises ValueError for wrong values.
            given: the table, as `tomllib` returns it.
            keys: the place of the table.
        """
        if not isinstance(given, dict):
            self._add_wrong_type("a table", given, keys)
            return settings
        before = len(self.errors)
        values = self._values(type(settings), settings, given, keys)
        if len(self.errors) == before:
            try:
                return replace(settings, **values)
            except ValueError as error:
                self.errors.append(InvalidSetting(keys, ": ".join(filter(None, (".".join(keys), str(error))))))
        return settings

    def _values(
        self, section: type[DataclassInstance], defaults: object, given: dict[str, Any], keys: Keys
    ) -> dict[str, Any]:
        """Return the values of a table by the fields of its settings class."""
        types, values = get_type_hints(section), {}
        declared = {each.name: each for each in fields(section)}
        for name, value in given.items():
            place = (*keys, name)
            if name not in declared:
                self._add_unknown(place, declared, value)
            elif is_dataclass(types[name]):
                values[name] = self.validate(getattr(defaults, name), value, place)
            elif (named := section_type(types[name])) is not None:
                values[name] = self._named(named, value, place)
            else:
                values[name] = self._convert(value, types[name], setting_declaration(declared[name]).range, place)
        return values

    def _named(self, section: type[T], given: object, keys: Keys) -> Mapping[str, T]:
        """Return the sections of a table of tables by their names, without those that have an error."""
        if not isinstance(given, dict):
            self._add_wrong_type("a table of tables", given, keys)
            return {}
        sections = {name: self._named_section(section, table, (*keys, name)) for name, table in given.items()}
        return MappingProxyType({name: each for name, each in sections.items() if each is not None})

    def _named_section(self, section: type[T], given: object, keys: Keys) -> T | None:
        before = len(self.errors)
        if not is_section_name(keys[-1]):
            self.errors.append(InvalidSetting(keys, f"{'.'.join(keys)}: expected {NAME_RULE}"))
        elif not isinstance(given, dict):
            self._add_wrong_type("a table", given, keys)
        else:
            values = self._values(section, None, given, keys)
            for each in fields(section):
                if each.name not in given and each.default is MISSING and each.default_factory is MISSING:
                    self.errors.append(InvalidSetting(keys, f"{'.'.join(keys)}.{each.name} is missing: set it"))
            if len(self.errors) == before:
                try:
                    return section(**values)
                except ValueError as error:
                    self.errors.append(InvalidSetting(keys, f"{'.'.join(keys)}: {error}"))
        return None

    def _convert(self, value: Any, hint: Any, accepted: Range, keys: Keys) -> object:  # noqa: ANN401 - any value and type
        hint = without_none(hint)
        origin, inner = get_origin(hint), get_args(hint)
        if origin is tuple and isinstance(value, list):
            return tuple(self._convert(each, inner[0], accepted, (*keys, str(n))) for n, each in enumerate(value))
        if origin is Mapping and isinstance(value, dict):
            return {name: self._convert(each, inner[1], accepted, (*keys, name)) for name, each in value.items()}
        if origin is Literal and value in inner:
            return value
        if type(value) in _ACCEPTED.get(hint, ()):  # exactly: a bool is an int too
            if hint is Path:
                return self.base / value
            if value in accepted:
                return hint(value)
        self._add_wrong_type(describe_type(hint, accepted), value, keys)
        return None

    def _add_wrong_type(self, expected: str, value: object, keys: Keys) -> None:
        got = "" if isinstance(value, dict) else f", got {to_toml(value)}"
        self.errors.append(InvalidSetting(keys, f"{'.'.join(keys)}: expected {expected}{got}"))

    def _add_unknown(self, keys: Keys, declared: Iterable[str], given: object) -> None:
        """Add an error about a key that nothing declares, or of each key of a section of an earlier release."""
        name = ".".join(keys)
        if isinstance(given, dict) and any(given.keys() & {key[-1]} for key in self.replaced if key[:-1] == keys):
            for each, value in given.items():
                self._add_unknown((*keys, each), (), value)
            return
        if keys in self.replaced:
            self.errors.append(InvalidSetting(keys, f"{name} is now {'.'.join(self.replaced[keys])}"))
            return
        beside = {".".join((*keys[:-1], each)) for each in declared}
        known = {".".join(each[: len(keys)]) for each in self.known if len(each) >= len(keys)}
        suggestion = did_you_mean(name, beside | known)
        self.errors.append(InvalidSetting(keys, f"{name} is not a setting{suggestion}"))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the known name that is most like a wrong one; empty if none is."""
    import difflib  # noqa: PLC0415 - most configurations have no error

    suggestion = difflib.get_close_matches(name, sorted(known), n=1)
    return f": did you mean {suggestion[0]}?" if suggestion else ""


def to_toml(value: object) -> str:
    """Return a setting's value in TOML; a dash for None, which TOML cannot express."""
    match value:
        case None:
            return "-"
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case Mapping():
            inner = ", ".join(f"{to_toml(str(key))} = {to_toml(each)}" for key, each in value.items())
            return f"{{{inner}}}"
        case tuple() | list():
            return f"[{', '.join(to_toml(each) for each in value)}]"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def describe_type(hint: object, accepted: Range) -> str:
    """Return the values that a key accepts, such as "a whole number from 1 to 9" or "a list of strings"."""
    hint = without_none(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if hint is bool:
        return "true or false"
    if origin is Literal:
        *others, last = map(to_toml, inner)
        return f"{', '.join(others)} or {last}"
    if origin is tuple:
        return f"a list of {_NOUNS[inner[0]]}s {accepted}".rstrip()
    if origin is Mapping:
        kind = _NOUNS.get(inner[1])
        return f"a table of {kind}s {accepted}".rstrip() if kind else f"a table of {describe_type(inner[1], accepted)}"
    return f"a {_NOUNS[hint]} {accepted}".rstrip()


def without_none(hint: object) -> object:
    """Return an annotated type without None, which TOML cannot express."""
    return get_args(hint)[0] if get_origin(hint) in {Union, UnionType} else hint


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
