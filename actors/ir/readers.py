"""Readers: functions that convert a JSON value, or raise `InvalidValue` with what was expected.

A reader never looks outside its value. The JSON path is built while an `InvalidValue` propagates: each container adds
the member at fault, so valid input costs nothing extra.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from actors.ir.errors import IrError, quoted
from storage import BuildErrorCode

__all__ = [
    "InvalidValue",
    "Reader",
    "at",
    "choice",
    "command",
    "environment",
    "first_line",
    "flag",
    "integer",
    "items",
    "line",
    "members",
    "peek",
    "record",
    "size",
    "text",
    "variable",
]

T = TypeVar("T")
Reader = Callable[[object], T]

_MAX_CHARS = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


class InvalidValue(Exception):
    """A value is not what was expected.

    ``path`` holds the names of members and indexes of items that lead to the value, innermost first.
    """

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected
        self.path: list[str | int] = []

    def error(self) -> IrError:
        """Return the error for the caller, with the whole JSON path."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in reversed(self.path))
        return IrError(
            BuildErrorCode.INVALID_IR, f"{''.join(parts).removeprefix('.') or '$'}: expected {self.expected}"
        )


def at(part: str | int, reader: Reader[T], value: object) -> T:
    """Read the member or item ``part`` of a container; add it to the path of an `InvalidValue`."""
    try:
        return reader(value)
    except InvalidValue as fault:
        fault.path.append(part)
        raise


def members(value: object) -> Mapping[str, object]:
    """Read an object with any members."""
    if not isinstance(value, dict):
        raise InvalidValue("an object")
    return value


def peek(value: object, *path: str) -> object:
    """Return the value at ``path`` in ``value``, unchecked, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def record(
    make: Callable[..., T], required: Mapping[str, Reader[object]], optional: Mapping[str, Reader[object]]
) -> Reader[T]:
    """Return a reader of objects that passes the known members to ``make`` by name.

    Members are read in document order, and missing ones are reported last. ``null`` counts as absent for optional
    members. Unknown members are ignored.
    """

    def read(value: object) -> T:
        found: dict[str, object] = {}
        for name, member in members(value).items():
            reader = required.get(name) or (None if member is None else optional.get(name))
            if reader is not None:
                found[name] = at(name, reader, member)
        for name, reader in required.items():
            if name not in found:
                found[name] = at(name, reader, None)
        return make(**found)

    return read


def items(reader: Reader[T]) -> Reader[tuple[T, ...]]:
    """Return a reader of lists whose items ``reader`` reads."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise InvalidValue("a list")
        return tuple(at(index, reader, item) for index, item in enumerate(value))

    return read


def text(value: object) -> str:
    """Read a name of any kind: not blank, one line, at most 255 characters."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("a non-empty string")
    return line(value)


def line(value: object) -> str:
    """Read a string of one line, at most 255 characters, possibly empty."""
    if not isinstance(value, str):
        raise InvalidValue("a string")
    if len(value) > _MAX_CHARS:
        raise InvalidValue(f"at most {_MAX_CHARS} characters")
    if _CONTROL.search(value):
        raise InvalidValue("no control characters")
    return value


def first_line(text: str, most: int) -> str:
    """Return the first non-blank line of a text, cut to ``most`` characters; empty if there is none."""
    for each in text.splitlines():
        words = " ".join(_CONTROL.sub(" ", each).split())
        if words:
            return words if len(words) <= most else f"{words[: most - 1]}…"
    return ""


def variable(value: object) -> str:
    """Read the name of an environment variable."""
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise InvalidValue(f'a variable name of letters, digits and "_" in place of {quoted(value)}')
    return value


def command(max_bytes: int) -> Reader[str]:
    """Return a reader of shell commands of at most ``max_bytes`` of UTF-8."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InvalidValue("a non-empty string")
        if "\0" in value:
            raise InvalidValue("no NUL character")
        if len(value.encode()) > max_bytes:
            raise InvalidValue(f"at most {max_bytes} bytes")
        return value

    return read


def environment(max_bytes: int, base: Mapping[str, str] | None = None) -> Reader[Mapping[str, str]]:
    """Return a reader of environment variables, merged over ``base``.

    ``max_bytes`` limits the size of the result, see `size`.
    """

    def read(value: object) -> Mapping[str, str]:
        env = dict(base or {})
        for name, content in members(value).items():
            variable(name)
            env[name] = at(name, _content, content)
        if size(env) > max_bytes:
            raise InvalidValue(f"at most {max_bytes} bytes of names and values")
        return env

    return read


def size(env: Mapping[str, str]) -> int:
    """Return the UTF-8 bytes of the names and values of environment variables."""
    return sum(len(name) + len(content.encode()) for name, content in env.items())


def _content(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue("a string")
    if "\0" in value:
        raise InvalidValue("no NUL character")
    return value


def integer(minimum: int, maximum: int) -> Reader[int]:
    """Return a reader of whole numbers within inclusive bounds; ``true`` and ``1.0`` are rejected."""

    def read(value: object) -> int:
        if type(value) is not int or not minimum <= value <= maximum:
            raise InvalidValue(f"a whole number from {minimum} to {maximum}")
        return value

    return read


def flag(value: object) -> bool:
    """Read ``true`` or ``false``."""
    if not isinstance(value, bool):
        raise InvalidValue("true or false")
    return value


def choice(*options: str) -> Reader[str]:
    """Return a reader that accepts only the strings in ``options``."""
    quoted = [f'"{option}"' for option in options]
    expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise InvalidValue(expected)
        return value

    return read
