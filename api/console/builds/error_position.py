"""The error for which a pipeline was rejected, and its position; pure."""

from __future__ import annotations

import json
import re

from storage import immutable

_IN_JSON = re.compile(r": line ([0-9]{1,9}) column ([0-9]{1,9})$")
_IN_FILE = re.compile(
    r'^  File "/workspace/(?P<file>\.hm/[^"\n]{1,500})", line (?P<line>[0-9]{1,9}).*\n(?P<source>(?:    .*\n?){0,3})',
    re.MULTILINE,
)
_IN_IR = re.compile(r"^(\w+(?:\.\w+|\[[0-9]{1,9}\])*): expected ")
_PARTS = re.compile(r"(\w+)|\[([0-9]+)\]")
_TRACEBACK = "Traceback (most recent call last):\n"
_AROUND = 60
_LONGEST = 400


@immutable
class Position:
    """A place in words, and what is there, with a mark below it if the column is known."""

    place: str
    excerpt: str


def cause_of(message: str) -> str:
    """Return a message without the frames of its traceback: only the error that ends it."""
    before, _, traceback = message.partition(_TRACEBACK)
    if not traceback:
        return message
    lines = traceback.rstrip().splitlines()
    frames = [place for place, line in enumerate(lines) if line.startswith(" ")]
    error = lines[frames[-1] + 1 :] if frames else lines
    return before + "\n".join(error or lines[-1:]).strip()


def position_of(message: str, render_log: str, pipeline_ir: str | None) -> Position | None:
    """Return the place of an error, by its message and the output of the pipeline files; None if unknown.

    A traceback names the file and line that was reached last, an error in JSON its line and column, an error of a value
    its path.
    """
    if (frames := list(_IN_FILE.finditer(render_log))) or (frames := list(_IN_FILE.finditer(message))):
        last = frames[-1]
        source = "\n".join(line[4:] for line in last["source"].splitlines())
        return Position(f"{last['file']}, line {last['line']}", source)
    if pipeline_ir and (found := _IN_JSON.search(message)):
        return _in_text(pipeline_ir, int(found[1]), int(found[2]))
    if pipeline_ir and (found := _IN_IR.match(message)):
        return Position(f"{found[1]} of the pipeline as JSON", _value_at(pipeline_ir, found[1]))
    return None


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
