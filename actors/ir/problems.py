"""Problem matchers, for the lines by which compilers and linters name problems in files. Pure.

Each pattern looks at one line, of which it sees so many characters that no text makes it slow (engine.md,
"Annotations").
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from storage import AnnotationLevel, immutable, pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_LONGEST_LINE = 2_000
_ESCAPES = pattern(r"\x1b\[[0-9;]{0,50}[A-Za-z]")
_LEVELS = {"warning": "warning", "deprecated": "warning", "notice": "notice"}


class _Holds(Enum):
    """The lines after a head for which it holds."""

    NEXT_LINE = 1
    PARAGRAPH = 2
    FIRST_MATCH = 3


@immutable
class Matcher:
    """The lines in which a program names a problem; some need what a line before says, its head.

    The groups of the patterns are the parts of an annotation. Without a level it is an error.
    """

    lines: tuple[re.Pattern[str], ...]
    head: re.Pattern[str] | None = None
    holds: _Holds = _Holds.NEXT_LINE


_PATH = r"(?P<path>[^\s:][^:]{0,500})"
_LINE = r"(?P<line>[0-9]{1,9})"
_COLUMN = r"(?P<column>[0-9]{1,9})"
_LEVEL = r"(?P<level>error|warning)"
_MESSAGE = r"(?P<message>.*)"
_TSC = r"(?P<title>TS[0-9]{1,6})"
_CODE = r"(?P<title>[A-Z]{1,6}[0-9]{1,6}|invalid-syntax)"
_ARROW = pattern(rf"\s*--> {_PATH}:{_LINE}:{_COLUMN}")
_GCC = Matcher((pattern(rf"{_PATH}:{_LINE}:(?:{_COLUMN}:)? (?:fatal )?{_LEVEL}: {_MESSAGE}"),))
_CODES = pattern(rf"{_PATH}:{_LINE}:(?:{_COLUMN}:)? {_CODE}:? {_MESSAGE}")
_RUSTC = Matcher((_ARROW,), pattern(rf"{_LEVEL}(?:\[(?P<title>[A-Z][0-9]{{1,6}})\])?: {_MESSAGE}"))

MATCHERS: Mapping[str, Matcher] = {
    "gcc": _GCC,
    "clang": _GCC,
    "go": Matcher((pattern(rf"(?:vet: )?(?P<path>[^\s:]{{1,500}}\.go):{_LINE}:(?:{_COLUMN}:)? {_MESSAGE}"),)),
    "rustc": _RUSTC,
    "cargo": _RUSTC,
    "javac": Matcher(
        (
            pattern(rf"(?P<path>[^\s:][^:]{{0,500}}\.(?:java|kt|scala)):{_LINE}:(?:{_COLUMN}:)? {_LEVEL}: {_MESSAGE}"),
            pattern(rf"\[(?P<level>ERROR|WARNING)\] (?P<path>[^\s:\[]{{1,500}}):\[{_LINE},{_COLUMN}\] {_MESSAGE}"),
        )
    ),
    "tsc": Matcher(
        (
            pattern(rf"(?P<path>[^\s(:][^(:]{{0,500}})\({_LINE},{_COLUMN}\): {_LEVEL} {_TSC}: {_MESSAGE}"),
            pattern(rf"{_PATH}:{_LINE}:{_COLUMN} - {_LEVEL} {_TSC}: {_MESSAGE}"),
        )
    ),
    "eslint": Matcher(
        (
            pattern(
                rf"{_PATH}:{_LINE}:{_COLUMN}: (?P<message>.*?)"
                r" \[(?P<level>Error|Warning)(?:/(?P<title>[^\]\s]{1,100}))?\]"
            ),
            pattern(rf"\s+{_LINE}:{_COLUMN}\s+{_LEVEL}\s+{_MESSAGE}"),
        ),
        pattern(r"(?P<path>[^\s:][^:]{0,500}\.[A-Za-z]{1,6})"),
        _Holds.PARAGRAPH,
    ),
    "flake8": Matcher((_CODES,)),
    "pylint": Matcher((_CODES,)),
    "ruff": Matcher((_CODES, _ARROW), pattern(rf"{_CODE}:? (?:\[\*\] )?{_MESSAGE}")),
    "mypy": Matcher((pattern(rf"{_PATH}:{_LINE}:(?:{_COLUMN}:)?(?:[0-9]{{1,9}}:){{0,2}} {_LEVEL}: {_MESSAGE}"),)),
    "python": Matcher(
        (pattern(r"(?P<message>[A-Za-z_][A-Za-z0-9_.]{0,200}(?:: .*)?)"),),
        pattern(
            r'  File "(?P<path>(?:/workspace/|[^/<"])(?![^"]{0,500}site-packages/)[^"]{1,500})"'
            r", line (?P<line>[0-9]{1,9})(?:, in .*)?"
        ),
        _Holds.FIRST_MATCH,
    ),
    "php": Matcher(
        (
            pattern(
                r"(?:PHP )?(?P<level>Parse error|Fatal error|Warning|Notice|Deprecated): {1,9}(?P<message>.*)"
                r" in (?P<path>\S{1,500}) on line (?P<line>[0-9]{1,9})"
            ),
        )
    ),
}
"""The matchers by their names."""


@immutable
class Problem:
    """A problem that a line of a log names; lines count from 1."""

    matcher: str
    log_line: int
    level: AnnotationLevel
    message: str
    path: str
    line: int
    column: int | None
    title: str | None

    def row(self, before: int) -> ProblemRow:
        """Return it as a row, for another process; ``before`` is the number of lines in earlier logs."""
        at = before + self.log_line
        return self.matcher, at, str(self.level), self.message, self.path, self.line, self.column, self.title


def find_problems(lines: Iterable[str], names: Sequence[str]) -> Iterator[Problem]:
    """Yield the problems in lines of a log, each once, as the first matcher that finds it says."""
    searches = [_Search(name, MATCHERS[name]) for name in names if name in MATCHERS]
    known = set()
    for number, line in enumerate(lines, start=1):
        shown = _ESCAPES.sub("", line[:_LONGEST_LINE]).rstrip().rpartition("\r")[2]
        for problem in [found for each in searches if (found := each.look(shown, number)) is not None]:
            what = problem.path, problem.line, problem.column, problem.message
            if what not in known:
                known.add(what)
                yield problem


ProblemRow = tuple[str, int, str, str, str, int, int | None, str | None]


class _Search:
    """One matcher on its way through a log."""

    def __init__(self, name: str, matcher: Matcher) -> None:
        self._name = name
        self._matcher = matcher
        self._said: Mapping[str, str] = {}

    def look(self, line: str, number: int) -> Problem | None:
        """Return the problem that the next line names."""
        matcher = self._matcher
        for each in matcher.lines:
            if (found := each.fullmatch(line)) is not None:
                said = {**self._said, **{key: text for key, text in found.groupdict().items() if text is not None}}
                if {"path", "line", "message"} <= said.keys():
                    if matcher.holds is not _Holds.PARAGRAPH:
                        self._said = {}
                    return self._problem(said, number)
        if matcher.head is not None and (head := matcher.head.fullmatch(line)) is not None:
            self._said = {key: text for key, text in head.groupdict().items() if text is not None}
        elif matcher.holds is _Holds.NEXT_LINE or (matcher.holds is _Holds.PARAGRAPH and not line):
            self._said = {}
        return None

    def _problem(self, said: Mapping[str, str], number: int) -> Problem:
        level = AnnotationLevel(_LEVELS.get(said.get("level", "").lower(), "error"))
        message, column = " ".join(said["message"].split()), said.get("column")
        return Problem(
            self._name,
            number,
            level,
            message,
            said["path"],
            int(said["line"]),
            int(column) if column else None,
            said.get("title"),
        )
