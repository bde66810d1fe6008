"""Read typed settings from a TOML file and the environment, with exact error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_origin, get_type_hints

from ci_daemon.config.validation import (
    InvalidSetting,
    Keys,
    Validation,
    did_you_mean,
    is_section_name,
    named_section,
    named_sections,
    without_none,
)
from storage import error_reason, immutable, setting_declaration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class ConfigError(Exception):
    """The configuration is wrong; the message has a line per error: location, key, and expected value."""


@immutable
class Setting:
    """A key and its value in effect.

    ``origin`` is the file and line, or the environment variable, that sets it; None for the default.
    """

    name: str
    value: object
    origin: str | None
    secret: bool


@dataclass(slots=True)
class _RawSettings:
    """The given settings as nested tables, and the environment variables of the keys that came from one."""

    tables: dict[str, Any]
    file: Path | None
    variables: dict[Keys, str] = field(default_factory=dict)

    def put(self, keys: Keys, value: object) -> None:
        table = self.tables
        for key in keys[:-1]:
            if not isinstance(table.get(key), dict):
                table[key] = {}
            table = table[key]
        table[keys[-1]] = value


class ConfigReader(Generic[T]):
    """Reads a dataclass of sections; its fields are dataclasses too, and their fields are the keys.

    Args:
        defaults: the dataclass, with the default of every key.
        prefix: the prefix of environment variables; section and key follow in capitals.
        reserved: environment variables with that prefix that are not settings.
    """

    def __init__(self, defaults: T, prefix: str, reserved: frozenset[str]) -> None:
        self._defaults = defaults
        self._prefix = prefix
        self._reserved = reserved

    @cached_property
    def _keys(self) -> Mapping[Keys, bool]:
        return dict(_keys_of(self._defaults))

    @cached_property
    def _named(self) -> Mapping[Keys, type[DataclassInstance]]:
        return dict(named_sections(self._defaults))

    @cached_property
    def _replaced(self) -> Mapping[Keys, Keys]:
        return dict(_replaced_in(self._defaults))

    @cached_property
    def _variables(self) -> Mapping[str, Keys]:
        return {self._variable(keys): keys for keys in self._keys}

    def read(self, file: Path | None, environ: Mapping[str, str]) -> T:
        """Return the settings: the environment's before the file's before the defaults.

        A relative path in the file is relative to the file's folder; in the environment, to the working directory.

        Raises:
            ConfigError: a key or a value is wrong, or the file cannot be read.
        """
        given = self._given(file, environ)
        if not given.tables:
            return self._defaults
        validation = Validation(file.absolute().parent if file else Path(), self._keys, self._replaced)
        settings = validation.validate(self._defaults, given.tables)
        if validation.errors:
            raise ConfigError("\n".join(self._located(each, given) for each in validation.errors))
        return settings

    def explain(self, file: Path | None, environ: Mapping[str, str]) -> list[Setting]:
        """Return every key with its value in effect and its origin, section by section. Raises ConfigError."""
        settings = self.read(file, environ)
        given = self._given(file, environ)
        return [
            Setting(
                ".".join(keys),
                _value_at(settings, keys),
                self._location(keys, given) if _known_depth(keys, given.tables) == len(keys) else None,
                secret=secret,
            )
            for keys, secret in _keys_of(settings)
        ]

    def _given(self, file: Path | None, environ: Mapping[str, str]) -> _RawSettings:
        """Return the file's settings, overlaid with the environment's."""
        given = _RawSettings(_read_toml(file) if file else {}, file)
        unknown = []
        for name in sorted(environ):
            if not name.startswith(self._prefix) or name in self._reserved or not environ[name]:
                continue
            keys = self._variables.get(name) or self._key_of_named(name)
            if keys is None:
                unknown.append(f"{name} in the environment is {self._explain_unknown(name)}")
            else:
                given.put(keys, _parse_variable(environ[name], self._hint(keys)))
                given.variables[keys] = name
        if unknown:
            raise ConfigError("\n".join(unknown))
        return given

    def _explain_unknown(self, name: str) -> str:
        for keys, key in self._replaced.items():
            if self._variable(keys) == name:
                return f"now {self._variable(key)}"
        return f"not a setting{did_you_mean(name, self._variables)}"

    def _variable(self, keys: Keys) -> str:
        return self._prefix + "_".join(keys).upper()

    def _key_of_named(self, variable: str) -> Keys | None:
        """Return the key of a named section that a variable sets; None if it sets none."""
        for keys, section in self._named.items():
            above = f"{self._variable(keys)}_"
            for each in fields(section):
                end = f"_{each.name.upper()}"
                if variable.startswith(above) and variable.endswith(end):
                    name = variable[len(above) : -len(end)].lower().replace("_", "-")
                    if is_section_name(name):
                        return (*keys, name, each.name)
        return None

    def _hint(self, keys: Keys) -> object:
        named = self._named.get(keys[:-2])
        section = named or type(reduce(getattr, keys[:-1], self._defaults))
        return get_type_hints(section)[keys[-1]]

    def _located(self, error: InvalidSetting, given: _RawSettings) -> str:
        """Return an error's message after its location; a section's own message may begin with its key."""
        key = (*error.keys, error.message.removeprefix(f"{'.'.join(error.keys)}: ").partition(" ")[0])
        known = key in self._keys or key[:-2] in self._named
        return f"{self._location(key if known else error.keys, given)}: {error.message}"

    @staticmethod
    def _location(keys: Keys, given: _RawSettings) -> str:
        for length in range(len(keys), 0, -1):
            if variable := given.variables.get(keys[:length]):
                return variable
        return f"{given.file}:{_line_of(keys, given.file)}" if given.file else "environment"


def _keys_of(section: Any, above: Keys = ()) -> Iterator[tuple[Keys, bool]]:  # noqa: ANN401 - a dataclass, of any kind
    """Yield every key, and True for a secret one, whose field is declared with ``repr=False``.

    The keys of named sections are those of the sections that there are.
    """
    for each in fields(section):
        value, keys = getattr(section, each.name), (*above, each.name)
        if is_dataclass(value):
            yield from _keys_of(value, keys)
        elif named_section(section, each.name) is not None:
            for name, inner in value.items():
                yield from _keys_of(inner, (*keys, name))
        else:
            yield keys, not each.repr


def _value_at(settings: Any, keys: Keys) -> object:  # noqa: ANN401 - a dataclass, of any kind
    for key in keys:
        settings = settings[key] if isinstance(settings, Mapping) else getattr(settings, key)
    return settings


def _replaced_in(section: Any, above: Keys = ()) -> Iterator[tuple[Keys, Keys]]:  # noqa: ANN401 - a dataclass, of any kind
    """Yield every key of earlier releases with its successor."""
    for each in fields(section):
        value, keys = getattr(section, each.name), (*above, each.name)
        if is_dataclass(value):
            yield from _replaced_in(value, keys)
        else:
            for old in setting_declaration(each).replaces:
                yield (tuple(old.split(".")) if "." in old else (*above, old)), keys


def _parse_variable(text: str, hint: object) -> object:
    """Return a variable's value as a TOML file would give it; lists may also be words separated by commas."""
    hint = without_none(hint)
    if hint is Path:
        return str(Path(text).absolute())
    if hint is str or get_origin(hint) is Literal:
        return text
    if get_origin(hint) is tuple and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return _parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def _parse_toml(text: str) -> dict[str, Any]:
    """Return a document. Raises ValueError."""
    import tomllib  # noqa: PLC0415 - local runs read no file

    return tomllib.loads(text)


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error_reason(error)}") from None
    try:
        return _parse_toml(text)
    except ValueError as error:
        found = re.search(r"line (\d+)", str(error))
        line = found[1] if found else len(text.splitlines())  # an error at the end of the document has no line number
        hint = "; the section is there already: set its keys there" if "twice" in str(error) else ""
        raise ConfigError(f"{file}:{line}: not TOML: {error}{hint}") from None


def _line_of(keys: Keys, file: Path) -> int:
    """Return the line number on which a key's statement begins.

    It is the line after the longest beginning of the file that parses without the key.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    known = _known_depth(keys, _read_toml(file))
    begin = 1
    for count in range(1, len(lines) + 1):
        try:
            head = _parse_toml("\n".join(lines[:count]))
        except ValueError:
            continue
        if _known_depth(keys, head) == known:
            break
        begin = count + 1
    return begin


def _known_depth(keys: Keys, tables: dict[str, Any]) -> int:
    """Return the number of leading keys that the tables have."""
    value: Any = tables
    for count, key in enumerate(keys):
        if not isinstance(value, dict) or key not in value:
            return count
        value = value[key]
    return len(keys)
