"""Readers: functions that convert a JSON value, or raise `InvalidValue` with what was expected.

A reader never looks outside its value. The JSON path is built while an `InvalidValue` propagates: each container adds
the member at fault, so valid input costs nothing extra. Containers read all of their members, and raise all faults
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NoReturn, TypeVar

from actors.ir.decoding import Fault, IrError, quoted
from storage import BuildErrorCode, pattern

T = TypeVar("T")
Reader = Callable[[object], T]

_MAX_CHARS = 255
_MAX_FAULTS = 100
_CONTROL = pattern(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


class InvalidValue(Exception):
    """A value is not what was expected.

    ``faults`` are in document order; their paths begin at the value, and their messages name no path yet.
    """

    def __init__(self, expected: str, code: BuildErrorCode = BuildErrorCode.INVALID_IR) -> None:
        super().__init__(expected)
        self.faults: tuple[Fault, ...] = (Fault(code, expected),)

    @classmethod
    def of(cls, faults: Iterable[Fault]) -> InvalidValue:
        """Return the exception that has several faults."""
        found = tuple(faults)
        several = cls(found[0].message)
        several.faults = found
        return several

    def below(self, part: str | int) -> InvalidValue:
        """Return the faults with their paths from the container, in which the value is ``part``."""
        return self.of(replace(fault, path=(part, *fault.path)) for fault in self.faults)

    def error(self) -> IrError:
        """Return the error for the caller, with the whole JSON paths."""
        faults = tuple(replace(fault, message=_message(fault)) for fault in self.faults)
        return IrError(faults[0].code, faults[0].message, faults)


def _message(fault: Fault) -> str:
    if fault.code is not BuildErrorCode.INVALID_IR:
        return fault.message
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.path)
    return f"{''.join(parts).removeprefix('.') or '$'}: expected {fault.message}"


class Faults:
    """The faults of the members of a container. After a hundred it raises them: nobody reads more."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, fault: InvalidValue) -> None:
        """Add faults. Raises InvalidValue with all of them if they are too many."""
        self._found += fault.faults
        if len(self._found) >= _MAX_FAULTS:
            self._raise()

    def at(self, part: str | int, reader: Reader[T], value: object) -> T | None:
        """Read the member or item ``part``; add its faults and return None if it has any."""
        try:
            return reader(value)
        except InvalidValue as fault:
            self.add(fault.below(part))
            return None

    def check(self) -> None:
        """Raise InvalidValue if there are faults."""
        if self._found:
            self._raise()

    def _raise(self) -> NoReturn:
        raise InvalidValue.of(self._found[:_MAX_FAULTS]) from None


def at(part: str | int, reader: Reader[T], value: object) -> T:
    """Read the member or item ``part`` of a container; add it to the path of an `InvalidValue`."""
    try:
        return reader(value)
    except InvalidValue as fault:
        raise fault.below(part) from None


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
        faults = Faults()
        for name, member in members(value).items():
            reader = required.get(name) or (None if member is None else optional.get(name))
            if reader is not None:
                found[name] = faults.at(name, reader, member)
        for name, reader in required.items():
            if name not in found:
                found[name] = faults.at(name, reader, None)
        faults.check()
        return make(**found)

    return read


def items(reader: Reader[T]) -> Reader[tuple[T, ...]]:
    """Return a reader of lists whose items ``reader`` reads."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise InvalidValue("a list")
        faults, found = Faults(), []
        for index, item in enumerate(value):
            try:
                found.append(reader(item))
            except InvalidValue as fault:
                faults.add(fault.below(index))
        faults.check()
        return tuple(found)

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
        faults = Faults()
        for name, content in members(value).items():
            try:
                variable(name)
                env[name] = at(name, _content, content)
            except InvalidValue as fault:
                faults.add(fault)
        faults.check()
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
