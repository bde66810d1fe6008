"""The error of a rejected pipeline IR with all of its faults, and the caller's values in messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from storage import BuildErrorCode

_MAX_QUOTED_CHARS = 200


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
