"""The place of a failure in the repository, as a test report names it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.test_reports.junit import TestCase

_MENTIONS = re.compile(
    r"""File "(?P<python>[^"\n]{1,400})", line (?P<python_line>\d{1,7})"""
    r"|(?<![\w./+@-])(?P<path>[\w./+@-]{1,400}):(?P<line>\d{1,7})(?!\d)"
)
_WORKSPACE = "/workspace/"


@immutable
class Location:
    """A line of a file of the repository; lines count from 1."""

    path: str
    line: int


class SourceFiles:
    """The files of a build's source, which reports name in the ways of their runners."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def location(self, case: TestCase) -> Location | None:
        """Return where a test failed: in its own file if that is known, else where its output says first."""
        mentions = list(self._mentions(case.output))
        own = self._file(case.file) or self._module(case.suite)
        if own is None:
            return mentions[0] if mentions else None
        return next((each for each in mentions if each.path == own), Location(own, max(case.line, 1)))

    def _mentions(self, output: str) -> Iterator[Location]:
        for found in _MENTIONS.finditer(output):
            path = self._file(found["python"] or found["path"])
            if path is not None:
                yield Location(path, max(int(found["python_line"] or found["line"]), 1))

    def _file(self, named: str) -> str | None:
        """Return the file that a report names from the workspace, or the only one that ends so.

        Runners often name files from a folder below, and some by their last part.
        """
        path = named.removeprefix(_WORKSPACE).removeprefix("./")
        if path in self._paths:
            return path
        ends = [each for each in self._by_name.get(path.rpartition("/")[2], ()) if each.endswith(f"/{path}")]
        return ends[0] if len(ends) == 1 else None

    def _module(self, suite: str) -> str | None:
        """Return the file of a Python module, also of one that a class of tests is in."""
        path = suite.replace(".", "/")
        return self._file(f"{path}.py") or (self._file(f"{path.rpartition('/')[0]}.py") if "/" in path else None)
