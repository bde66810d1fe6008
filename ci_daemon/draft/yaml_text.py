"""The text of a pipeline in YAML, with comments. Pure.

Every text comes back as it was: what is not plainly safe stands in quotes.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from ci_daemon.draft.contents import contents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_daemon.draft.model import DraftPipeline

_WIDTH = 120
_COMMENT_WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z0-9_./$]([\w .:/@%+=~^$*-]*[\w./@%+=~^$*-])?", re.ASCII)
"""Texts that are themselves without quotes, also between brackets."""

_PLAIN_LINE = re.compile(r"[A-Za-z0-9_./$]([\x20-\x7e]*[\x21-\x7e])?")
"""Texts that may be themselves without quotes on a line of their own."""

_NOT_PLAIN = re.compile(r":(\s|$)|\s#|^(null|Null|NULL)$")
_IN_BLOCK = ("when", "matrix", "env", "jobs", "on")
"""The keys whose mappings stand on lines of their own, if they are long."""

_SHORT = 80


def yaml_written(pipeline: DraftPipeline, comment: str, schema: str | None = None) -> str:
    """Return the text of a pipeline file. Editors check it by the schema at an address, if one is known."""
    head, jobs = contents(pipeline)
    hint = [] if schema is None else [f"yaml-language-server: $schema={schema}"]
    return yaml_text([*hint, comment], head, ((key, job, ()) for key, job in jobs.items()))


def yaml_text(
    comments: Iterable[str], head: Mapping[str, object], jobs: Iterable[tuple[str, Mapping[str, object], Iterable[str]]]
) -> str:
    """Return the text of a pipeline's file. Jobs have a key, what stands there, and comments."""
    lines = _comments(comments, "")
    for name, value in head.items():
        lines += _member(name, value, "")
    lines.append("jobs:")
    for number, (key, members, of_job) in enumerate(jobs):
        if number:
            lines.append("")
        lines += _comments(of_job, "  ")
        lines.append(f"  {_scalar(key)}:")
        for name, value in members.items():
            lines += _member(name, value, "    ")
    return "\n".join(lines) + "\n"


def _comments(texts: Iterable[str], indent: str) -> list[str]:
    found: list[str] = []
    for text in texts:
        plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
        width = _COMMENT_WIDTH - len(indent)
        lines = textwrap.wrap(plain, width, break_long_words=False, break_on_hyphens=False)
        found += [f"{indent}# {'  ' if number else ''}{line}" for number, line in enumerate(lines)]
    return found


def _member(name: str, value: object, indent: str) -> list[str]:
    key = f"{indent}{_scalar(name)}:"
    if isinstance(value, dict):
        short = f"{key} {_flow(value)}"
        if name not in _IN_BLOCK and len(short) <= _SHORT:
            return [short]
        return [key, *(line for each, inner in value.items() for line in _member(each, inner, f"{indent}  "))]
    if isinstance(value, list | tuple):
        short = f"{key} {_flow(value)}"
        if len(short) <= _WIDTH or not value:
            return [short]
        return [key, *(f"{indent}  - {_flow(each)}" for each in value)]
    if isinstance(value, str) and _fits_block(value):
        kept = value.removesuffix("\n")
        lines = (f"{indent}  {line}" if line else "" for line in kept.split("\n"))
        return [f"{key} |{'' if value.endswith(chr(10)) else '-'}", *lines]
    if isinstance(value, str) and _PLAIN_LINE.fullmatch(value) and not _NOT_PLAIN.search(value):
        return [f"{key} {value}"]
    return [f"{key} {_flow(value)}"]


def _flow(value: Any) -> str:  # noqa: ANN401 - a value of the document
    match value:
        case dict():
            return f"{{{', '.join(_pairs(value))}}}"
        case list() | tuple():
            return f"[{', '.join(map(_flow, value))}]"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            return _scalar(str(value))


def _pairs(value: Mapping[str, object]) -> Iterator[str]:
    return (f"{_scalar(name)}: {_flow(member)}" for name, member in value.items())


def _fits_block(text: str) -> bool:
    """Tell whether a text of several lines stands in a block as it is."""
    begins = "\n" in text and text[0] not in " \t\n" and not text.endswith("\n\n")
    last = text.removesuffix("\n").rsplit("\n", maxsplit=1)[-1]
    return begins and bool(last.strip()) and all(each.isprintable() or each in "\n\t" for each in text)


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _NOT_PLAIN.search(text):
        return text
    if text.isprintable() and "'" not in text:
        return f"'{text}'" if '"' in text or "\\" in text else f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    if character in "\n\t":
        return "\\n" if character == "\n" else "\\t"
    return f"\\U{ord(character):08x}"
