"""The errors for which a pipeline was rejected, and their places; pure."""

from __future__ import annotations

import json
import re

from actors.render import errors_in
from storage import immutable

_IN_JSON = re.compile(r": line ([0-9]{1,9}) column ([0-9]{1,9})$")
_IN_IR = re.compile(r"^(\w+(?:\.\w+|\[[0-9]{1,9}\])*): expected ")
_PARTS = re.compile(r"(\w+)|\[([0-9]+)\]")
_TRACEBACK = "Traceback (most recent call last):\n"
_AROUND = 60
_LONGEST = 400


@immutable
class Position:
    """A place in words, and what is there, with a mark below it if the column is known.

    ``message`` is empty where one says it of all places.
    """

    place: str
    excerpt: str
    message: str = ""


def cause_of(message: str) -> str:
    """Return a message without the frames of its traceback: only the error that ends it."""
    before, _, traceback = message.partition(_TRACEBACK)
    if not traceback:
        return message
    lines = traceback.rstrip().splitlines()
    frames = [place for place, line in enumerate(lines) if line.startswith(" ")]
    error = lines[frames[-1] + 1 :] if frames else lines
    return before + "\n".join(error or lines[-1:]).strip()


def positions_of(message: str, render_log: str, pipeline_ir: str | None) -> list[Position]:
    """Return the places of errors, by their message and the output of the pipeline files; none if unknown.

    Each traceback names the line of the files that was reached last, an error in JSON its line and column, an error of
    a value its path.
    """
    if errors := errors_in(render_log) or errors_in(message):
        known = [each for each in errors if each.file is not None]
        return [Position(f"{each.file}, line {each.line}", each.excerpt, each.message) for each in known]
    if pipeline_ir and (found := _IN_JSON.search(message)):
        return [_in_text(pipeline_ir, int(found[1]), int(found[2]))]
    if pipeline_ir and (found := _IN_IR.match(message)):
        return [Position(f"{found[1]} of the pipeline as JSON", _value_at(pipeline_ir, found[1]))]
    return []


def _in_text(text: str, line: int, column: int) -> Position:
    lines = text.split("\n", line)
    whole = lines[line - 1] if line <= len(lines) else ""
    start = max(0, column - 1 - _AROUND)
    shown = whole[start : column - 1 + _AROUND].replace("\t", " ")
    mark = " " * (column - 1 - start)
    return Position(f"line {line}, column {column} of the pipeline as JSON", f"{shown}\n{mark}^")


def _value_at(text: str, path: str) -> str:
    """Return the beginning of the value at a path as JSON, or of the innermost part of it that exists.

    Only that is encoded: the whole may take seconds, and be nested deeper than Python's encoder goes.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for name, index in _PARTS.findall(path):
        try:
            value = value[int(index)] if index else value[name]
        except (KeyError, IndexError, TypeError):
            break
    shown = ""
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        shown += part[:_LONGEST]
        if len(shown) >= _LONGEST:
            break
    return shown[:_LONGEST]
