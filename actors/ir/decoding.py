"""Strict decoding of JSON text, and the errors of an IR with their lines and columns."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from storage import BuildErrorCode, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAX_QUOTED_CHARS = 200
_MOST_CONTAINERS = 250_000
"""Brackets and braces, also within strings: to parse a million empty lists takes a second."""

_WORD = pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[-+.\w]+|[\[{}\]]', re.DOTALL)
_ESCAPE = pattern(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(?P<half>u[dD][89a-fA-F]\w\w)|.)", re.DOTALL)
"""Matches an escape sequence or a surrogate pair; the group ``half`` holds an unpaired surrogate."""


@immutable
class Fault:
    """One fault of a pipeline IR. ``path`` has the names of members and indexes of items that lead to it."""

    code: BuildErrorCode
    message: str
    path: tuple[str | int, ...] = ()


class IrError(Exception):
    """The pipeline IR is rejected; always the caller's fault (pipeline-ir.md, "Validation").

    ``code`` is the build's ``error_code`` and ``message`` its ``error_message``. They are those of the first of its
    ``faults``, which are in document order.
    """

    def __init__(self, code: BuildErrorCode, message: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.faults = faults or (Fault(code, message),)


def quoted(value: object) -> str:
    """Format a JSON value for a message: one line, printable, at most about 200 characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    quote = '"' if isinstance(value, str) else ""
    text = json.dumps(value[: _MAX_QUOTED_CHARS + 1] if isinstance(value, str) else value, ensure_ascii=False)
    printable = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    if len(printable) <= _MAX_QUOTED_CHARS + 2 * len(quote):
        return printable
    return f"{printable[:_MAX_QUOTED_CHARS]}…{quote}"


class _NotJsonError(ValueError):
    """A constant such as NaN, which Python's reader accepts and the standard does not."""


def decode(text: str) -> object:
    """Return the JSON document in ``text``, in which every string is valid Unicode.

    If an object repeats a key, the last value counts, as in other JSON readers.

    Raises:
        IrError: ``invalid_json``, with line and column; ``invalid_ir`` if it may hold very many lists and objects.
    """
    if text.count("[") + text.count("{") > _MOST_CONTAINERS:
        why = f"the pipeline IR has more than {_MOST_CONTAINERS} lists and objects"
        raise IrError(BuildErrorCode.INVALID_IR, why)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _invalid("not valid UTF-8", text, error.start) from None
    try:
        document: object = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise _invalid(error.msg, text, error.pos) from None
    except RecursionError:
        raise _invalid("nested too deeply", text, _deepest_offset(text)) from None
    except _NotJsonError as error:
        name = str(error)
        raise _invalid(f"{name} is not a JSON number", text, _first_offset(text, name)) from None
    except ValueError:
        too_long = rf"-?[0-9]{{{sys.get_int_max_str_digits() + 1},}}(?![0-9]|\.[0-9]|[eE][-+]?[0-9])"
        raise _invalid("a number with too many digits", text, _first_offset(text, too_long)) from None
    half = next((escape.start() for escape in _ESCAPE.finditer(text) if escape["half"]), None)
    if half is not None:
        raise _invalid("half of a surrogate pair", text, half)
    return document


def _refuse(name: str) -> None:
    raise _NotJsonError(name)


def _invalid(why: str, text: str, offset: int) -> IrError:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    return IrError(
        BuildErrorCode.INVALID_JSON, f"the pipeline IR is not valid JSON: {why}: line {line} column {column}"
    )


def _words(text: str) -> Iterator[tuple[str, int]]:
    for match in _WORD.finditer(text):
        yield match[0], match.start()


def _first_offset(text: str, pattern: str) -> int:
    begins = re.compile(pattern).match
    return next(offset for word, offset in _words(text) if begins(word))


def _deepest_offset(text: str) -> int:
    depth = deepest = place = 0
    for word, offset in _words(text):
        if word in "[{":
            depth += 1
            if depth > deepest:
                deepest, place = depth, offset
        elif word in "]}":
            depth -= 1
    return place
