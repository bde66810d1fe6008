"""Log bytes as plain text: without colours, with progress bars as they ended."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain_text(text: str) -> str:
    """Return text without escapes and controls; of a line only what follows its last carriage return."""
    lines = _ESCAPES.sub("", text).split("\n")
    return _CONTROLS.sub("", "\n".join(line.removesuffix("\r").rpartition("\r")[2] for line in lines))
