"""Mistakes of pipeline files as people read them: a sentence, the line, and a caret below it; pure."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_EXCERPTS = 10
"""Mistakes whose lines are shown, of those of one render: the first ones are mended first."""

_BEFORE, _AROUND = 60, 120
"""Characters of a long line that are shown before the column, and in all."""

_EXCERPT = pattern(r" {2,}(?:[0-9]+ *)?\| ")


@immutable
class FileMistake:
    """A mistake in a file; lines and columns count from 1.

    ``source`` is its line, empty if that is not known.
    """

    file: str
    line: int
    column: int
    code: str
    message: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"

    @property
    def excerpt(self) -> str:
        """The line behind its number, and a caret below the column; empty if the line is not known."""
        if not self.source.strip():
            return ""
        start = max(0, self.column - 1 - _BEFORE)
        shown = "".join(each if each.isprintable() else " " for each in self.source[start : start + _AROUND])
        number, indent = f"  {self.line} | ", f"  {' ' * len(str(self.line))} | "
        return f"{number}{shown.rstrip()}\n{indent}{' ' * (self.column - 1 - start)}^"


def with_sources(
    mistakes: Iterable[tuple[str, int, int, str, str]], texts: Mapping[str, str]
) -> list[tuple[str, int, int, str, str, str]]:
    """Return mistakes in order, the same one once, each with its line of the texts of files."""
    lines = {file: texts.get(file, "").split("\n") for file, *_ in mistakes}
    return [
        (*each, lines[each[0]][each[1] - 1].rstrip("\r") if 0 < each[1] <= len(lines[each[0]]) else "")
        for each in sorted(dict.fromkeys(mistakes))
    ]


def in_words(mistakes: Iterable[FileMistake]) -> str:
    """Return the sentences of mistakes, the first ones with their lines."""
    said: list[str] = []
    for place, each in enumerate(mistakes):
        said += [str(each), *([each.excerpt] if place < _MOST_EXCERPTS and each.excerpt else [])]
    return "\n".join(said)


def parts_of(message: str) -> list[tuple[bool, str]]:
    """Return the sentences and excerpts of `in_words` in order, with True for an excerpt.

    Lines of an excerpt must not wrap: its caret stands below a column.
    """
    grouped = groupby(message.split("\n"), key=lambda line: _EXCERPT.match(line) is not None)
    return [(excerpt, "\n".join(lines)) for excerpt, lines in grouped]


def without_excerpts(message: str) -> str:
    """Return the sentences of `in_words` alone, for what shows them in letters of different widths."""
    return "\n".join(line for line in message.split("\n") if not _EXCERPT.match(line))
