"""The error of a rejected pipeline IR, and the formatting of the caller's values in messages."""

from __future__ import annotations

import json
from typing import Literal

__all__ = ["Code", "IrError", "shown"]

Code = Literal["invalid_json", "bad_version", "duplicate_key", "unknown_dependency", "cycle", "invalid_ir"]

_SHOWN_CHARS = 200


class IrError(Exception):
    """The pipeline IR is rejected; always the caller's fault (pipeline-ir.md, "Validation").

    ``code`` is the build's ``error_code`` and ``message`` its ``error_message``.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def shown(value: object) -> str:
    """Format a JSON value for a message: one line, printable, at most about 200 characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    quote = '"' if isinstance(value, str) else ""
    text = json.dumps(value[: _SHOWN_CHARS + 1] if isinstance(value, str) else value, ensure_ascii=False)
    printable = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    if len(printable) <= _SHOWN_CHARS + 2 * len(quote):
        return printable
    return f"{printable[:_SHOWN_CHARS]}…{quote}"
