"""Read typed settings from a TOML file and the environment, with exact error messages."""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import reduce
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _typeshed import DataclassInstance
    from pydantic_core import ErrorDetails

__all__ = ["ConfigError", "Reader", "Setting"]

Keys = tuple[str, ...]
_SECTION_AND_KEY = 2
T = TypeVar("T", bound="DataclassInstance")


class ConfigError(Exception):
    """The configuration is wrong; the message has a line per fault: place, key, and expected value."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key and its value in effect.

    ``origin`` is the file and line, or the environment variable, that sets it; None for the default.
    """

    name: str
    value: object
    origin: str | None
    secret: bool


@dataclass(slots=True)
class _Given:
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

    def get(self, keys: Keys) -> object:
        value: Any = self.tables
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value


class Reader(Generic[T]):
    """Reads a dataclass of sections; its fields are dataclasses too, and their fields are the keys.

    Args:
        sections: the dataclass. Unknown keys are refused if its ``__pydantic_config__`` says so.
        prefix: the prefix of environment variables; section and key follow in capitals.
        reserved: environment variables with that prefix that are not settings.
    """

    def __init__(self, sections: type[T], prefix: str, reserved: frozenset[str]) -> None:
        self._sections = sections
        self._defaults = sections()
        self._prefix = prefix
        self._reserved = reserved
        self._hints = dict(_keys(sections))
        self._secret = set(_secrets(self._defaults))
        self._variables = {prefix + "_".join(keys).upper(): keys for keys in self._hints}

    def read(self, file: Path | None, environ: Mapping[str, str]) -> T:
        """Return the settings: the environment's before the file's before the defaults.

        A relative path in the file is relative to the file's folder; in the environment, to the working directory.

        Raises:
            ConfigError: a key or a value is wrong, or the file cannot be read.
        """
        given = _Given(_parse(file) if file else {}, file)
        self._resolve_paths(given)
        self._overlay(given, environ)
        self._complete(given)
        return self._checked(given) if given.tables else self._defaults

    def explain(self, file: Path | None, environ: Mapping[str, str]) -> list[Setting]:
        """Return every key with its value in effect and its origin, section by section. Raises ConfigError."""
        settings = self.read(file, environ)
        given = _Given(_parse(file) if file else {}, file)
        self._overlay(given, environ)
        return [
            Setting(
                ".".join(keys),
                reduce(getattr, keys, settings),
                self._where(keys, given) if _known(keys, given.tables) == len(keys) else None,
                secret=keys in self._secret,
            )
            for keys in self._hints
        ]

    def _checked(self, given: _Given) -> T:
        """Return the defaults, with the given sections validated and put in their place. Raises ConfigError."""
        # Pydantic takes most of a small command's time, and the search for its plugins most of that.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415
        from pydantic_core import to_json  # noqa: PLC0415

        hints = get_type_hints(self._sections)
        sections = make_dataclass(
            self._sections.__name__,
            [
                (each.name, hints[each.name], field(default_factory=each.default_factory))
                for each in fields(self._sections)
                if each.name in given.tables
            ],
            namespace={"__pydantic_config__": getattr(self._sections, "__pydantic_config__", {})},
        )
        try:
            checked: DataclassInstance = TypeAdapter(sections).validate_json(to_json(given.tables))
        except ValidationError as error:
            raise ConfigError("\n".join(self._faults(error.errors(), given))) from None
        return replace(self._defaults, **{each.name: getattr(checked, each.name) for each in fields(checked)})

    def _resolve_paths(self, given: _Given) -> None:
        if given.file is None:
            return
        for keys, hint in self._hints.items():
            value = given.get(keys)
            if _holds(hint, Path) and isinstance(value, str):
                given.put(keys, str(given.file.absolute().parent / value))

    def _overlay(self, given: _Given, environ: Mapping[str, str]) -> None:
        unknown = []
        for name in sorted(environ):
            if not name.startswith(self._prefix) or name in self._reserved or not environ[name]:
                continue
            keys = self._variables.get(name)
            if keys is None:
                unknown.append(f"{name} in the environment is no setting{_suggestion(name, self._variables)}")
            else:
                given.put(keys, _from_text(environ[name], self._hints[keys]))
                given.variables[keys] = name
        if unknown:
            raise ConfigError("\n".join(unknown))

    def _complete(self, given: _Given) -> None:
        """Fill in missing keys of tables inside a section.

        Their defaults are those of the section, not those of the table's type.
        """
        for keys in self._hints:
            table = given.get(keys[:-1])
            if len(keys) > _SECTION_AND_KEY and isinstance(table, dict) and keys[-1] not in table:
                table[keys[-1]] = reduce(getattr, keys, self._defaults)

    def _faults(self, errors: list[ErrorDetails], given: _Given) -> Iterator[str]:
        for error in errors:
            keys = tuple(str(part) for part in error["loc"])
            name = ".".join(keys)
            where = self._where(self._meant(keys, error["msg"]), given)
            if error["type"] == "unexpected_keyword_argument":
                yield f"{where}: {name} is no setting{_suggestion(name, self._names(len(keys)))}"
            else:
                expected = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected", 1)
                got = "" if isinstance(error["input"], dict) else f", got {json.dumps(error['input'], default=str)}"
                yield f"{where}: {name}: {expected}{got}"

    def _meant(self, section: Keys, message: str) -> Keys:
        """Return the key that begins a section's own message; the section itself if none does."""
        key = (*section, message.removeprefix("Value error, ").partition(" ")[0])
        return key if key in self._hints else section

    def _names(self, depth: int) -> set[str]:
        return {".".join(keys[:depth]) for keys in self._hints if len(keys) >= depth}

    @staticmethod
    def _where(keys: Keys, given: _Given) -> str:
        for length in range(len(keys), 0, -1):
            if variable := given.variables.get(keys[:length]):
                return variable
        return f"{given.file}:{_line_of(keys, given.file)}" if given.file else "environment"


def _keys(sections: type[DataclassInstance], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    hints = get_type_hints(sections)
    for each in fields(sections):
        hint = hints[each.name]
        if isinstance(hint, type) and is_dataclass(hint):
            yield from _keys(hint, (*above, each.name))
        else:
            yield (*above, each.name), hint


def _secrets(section: Any, above: Keys = ()) -> Iterator[Keys]:  # noqa: ANN401 - a dataclass, of any kind
    """Yield the secret keys: those whose fields are declared with ``repr=False``."""
    for each in fields(section):
        value, keys = getattr(section, each.name), (*above, each.name)
        if is_dataclass(value):
            yield from _secrets(value, keys)
        elif not each.repr:
            yield keys


def _holds(hint: object, kind: type) -> bool:
    return kind in (get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,))


def _from_text(text: str, hint: object) -> object:
    """Return a variable's value as a TOML file would give it; lists may also be words separated by commas."""
    if _holds(hint, Path):
        return str(Path(text).absolute())
    if _holds(hint, str) or get_origin(hint) is Literal:
        return text
    if get_origin(hint) is tuple and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _parse(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = found[1] if found else len(text.splitlines())  # an error at the end of the document has no line number
        raise ConfigError(f"{file}:{line}: not TOML: {error}") from None


def _line_of(keys: Keys, file: Path) -> int:
    """Return the line number on which a key's statement begins.

    It is the line after the longest beginning of the file that parses without the key.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    known = _known(keys, _parse(file))
    begin = 1
    for count in range(1, len(lines) + 1):
        try:
            head = tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if _known(keys, head) == known:
            break
        begin = count + 1
    return begin


def _known(keys: Keys, tables: dict[str, Any]) -> int:
    """Return the number of leading keys that the tables have."""
    value: Any = tables
    for count, key in enumerate(keys):
        if not isinstance(value, dict) or key not in value:
            return count
        value = value[key]
    return len(keys)


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]}?" if near else ""
