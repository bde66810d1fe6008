"""Lines of values in a JSON text. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPACE = re.compile(r"[ \t\r\n]*")


def line_of(text: str, path: Iterable[str | int]) -> int:
    """Return the line on which the value at a path begins.

    If there is none, the innermost value on the way to it counts. The text is valid JSON.
    Of members with the same name the last one counts, as in other readers.
    """
    offset = _skip(text, 0)
    for part in path:
        found = _member(text, offset, part)
        if found is None:
            break
        offset = found
    return text.count("\n", 0, offset) + 1


def _member(text: str, offset: int, part: str | int) -> int | None:
    """Return the offset of a member or item of the container at an offset, or None."""
    is_object = text[offset] == "{"
    if not is_object and text[offset] != "[":
        return None
    decoder = json.JSONDecoder()
    found, place, offset = None, 0, _skip(text, offset + 1)
    while text[offset] not in "]}":
        name: str | int = place
        if is_object:
            name, offset = decoder.raw_decode(text, offset)
            offset = _skip(text, _skip(text, offset) + 1)
        if name == part:
            found = offset
        offset = _skip(text, decoder.raw_decode(text, offset)[1])
        if text[offset] == ",":
            offset = _skip(text, offset + 1)
        place += 1
    return found


def _skip(text: str, offset: int) -> int:
    space = _SPACE.match(text, offset)
    return offset if space is None else space.end()
