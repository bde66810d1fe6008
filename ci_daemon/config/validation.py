"""Validation of given settings by the types and ranges of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ci_daemon.config.formatting import describe_type, to_toml, without_none
from ci_daemon.config.named import NAME_RULE, is_section_name, section_type
from storage import Range, immutable, setting_declaration

if TYPE_CHECKING:
    from collections.abc import Iterable

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
