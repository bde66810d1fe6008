"""The error of a rejected pipeline IR, and the formatting of the caller's values in messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import BuildErrorCode

__all__ = ["IrError", "quoted"]

_MAX_QUOTED_CHARS = 200


class IrError(Exception):
    """The pipeline IR is rejected; always the caller's fault (pipeline-ir.md, "Validation").

    ``code`` is the build's ``error_code`` and ``message`` its ``error_message``.
    """

    def __init__(self, code: BuildErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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
