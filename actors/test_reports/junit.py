"""Test reports in JUnit's XML, as most runners write them, and where their tests are in the source."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from storage import immutable
from storage.files import Bounds, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from storage.files import Confinement


_LARGEST_HERE = 2**17
"""The most bytes of a report that is read without another process, within some 20 ms."""

_BOUNDS = Bounds(cpu_seconds=10, memory_bytes=512 << 20, seconds=60)
_MOST_CASES = 20_000
_MOST_FAILED = 1_000
LONGEST_NAME = 200
_LONGEST_PATH = 400
_LONGEST_OUTPUT = 8192
_LONGEST_OUTPUTS = 2**20
_MOST_TIMES, _LONGEST_TIME = 100, 64
_PART = 500
"""The tests that another process sends at once: no other thread runs while they are decoded."""

_Values = tuple[str, str, float, str, str, str, int]
_LINE = re.compile(r"[0-9]{1,7}")
_OUTPUTS = {"failure", "error", "skipped", "system-out", "system-err"}
_MENTIONS = re.compile(
    r"""File "(?P<python>[^"\n]{1,400})", line (?P<python_line>\d{1,7})"""
    r"|(?<![\w./+@-])(?P<path>[\w./+@-]{1,400}):(?P<line>\d{1,7})(?!\d)"
)
_WORKSPACE = "/workspace/"


class NotReport(Exception):
    """A file that is no test report; the message says why."""


class ReportUnreadable(NotReport):
    """A file that may be a test report, but cannot be read as one."""


class CaseOutcome(StrEnum):
    """The outcome of a test."""

    FAILED = "failed"
    SKIPPED = "skipped"
    PASSED = "passed"


WORST_FIRST = (CaseOutcome.FAILED, CaseOutcome.PASSED, CaseOutcome.SKIPPED)
"""Of several outcomes of one test the first of these counts: a test that was skipped says nothing."""


@immutable
class TestCase:
    """A test. ``output`` begins with the message of its failure; it and the names may be cut.

    ``file`` and ``line`` are empty and 0 if the report does not say where it is; some runners count lines from 0.
    """

    __test__ = False  # pytest would take it for tests

    suite: str
    name: str
    seconds: float
    outcome: CaseOutcome
    output: str
    file: str = ""
    line: int = 0


@immutable
class TestReport:
    """The tests of a report; ``counts`` is of all, also where there are more than ``cases`` takes.

    ``began`` are the times at which its suites say that they began, as written.
    """

    __test__ = False  # pytest would take it for tests

    cases: tuple[TestCase, ...]
    counts: Mapping[CaseOutcome, int]
    began: tuple[str, ...] = ()


def read_report(content: bytes) -> TestReport:
    """Return the first 20,000 tests of a report, and of others 1,000 that failed. Raises NotReport.

    Time and memory grow with the content alone. A document with a DTD is refused, so that there are no
    entities: neither files of the host nor texts that grow.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(content, True)  # noqa: FBT003 - expat's signature: it is the whole document
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two are of encodings
        raise ReportUnreadable(f"it is no XML: {error}") from None
    return TestReport(tuple(reader.cases), reader.counts, tuple(reader.began))


def read_confined(confinement: Confinement, owner: str, path: Path) -> TestReport:
    """Read a report as `read_report` does, a large one in a process of its own.

    There, the organization waits for its turn. Raises NotReport, and OSError if the file cannot be read.
    """
    if path.stat().st_size <= _LARGEST_HERE:
        return read_report(path.read_bytes())
    cases: list[TestCase] = []
    counts = Counter[CaseOutcome]()
    began: list[str] = []
    parts = confinement.each(
        _values, str(path), bounds=_BOUNDS, owner=owner, errors=(NotReport, ReportUnreadable, OSError)
    )
    try:
        for values, more, times in parts:
            began += times
            cases += (TestCase(*each[:3], CaseOutcome(each[3]), *each[4:]) for each in values)
            counts.update({CaseOutcome(outcome): count for outcome, count in more.items()})
    except WorkFailed as error:
        raise ReportUnreadable(f"it cannot be read: {error}") from None
    return TestReport(tuple(cases), counts, tuple(began))


def _values(path: str) -> Iterator[tuple[list[_Values], dict[str, int], tuple[str, ...]]]:
    """Yield the tests of a file's report in parts, at last its counts. Runs in another process."""
    report = read_report(Path(path).read_bytes())
    for first in range(0, len(report.cases), _PART):
        part = report.cases[first : first + _PART]
        yield (
            [
                (case.suite, case.name, case.seconds, case.outcome.value, case.output, case.file, case.line)
                for case in part
            ],
            {},
            (),
        )
    yield [], {outcome.value: count for outcome, count in report.counts.items()}, report.began


@dataclass(slots=True)
class _Reader:
    """The state between the elements of a document."""

    cases: list[TestCase] = field(default_factory=list)
    counts: Counter[CaseOutcome] = field(default_factory=Counter)
    began: list[str] = field(default_factory=list)
    _depth: int = 0
    _suites: list[str] = field(default_factory=list)
    _case: dict[str, str] | None = None
    _outcome: CaseOutcome = CaseOutcome.PASSED
    _output: list[str] = field(default_factory=list)
    _size: int = 0
    _left: int = _LONGEST_OUTPUTS
    _within: bool = False

    def doctype(self, *_: object) -> None:
        raise ReportUnreadable("it has a document type")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and name not in {"testsuites", "testsuite"}:
            raise NotReport("its first element is neither <testsuites> nor <testsuite>")
        if name == "testsuite":
            self._suites.append(attributes.get("name", ""))
            if len(self.began) < _MOST_TIMES:
                self.began.append(attributes.get("timestamp", "")[:_LONGEST_TIME])
        elif name == "testcase":
            self._case, self._outcome = attributes, CaseOutcome.PASSED
            self._output, self._size = [], 0
        elif self._case is not None and name in _OUTPUTS:
            self._within = True
            if name in {"failure", "error"}:
                self._outcome = CaseOutcome.FAILED
            elif name == "skipped" and self._outcome is CaseOutcome.PASSED:
                self._outcome = CaseOutcome.SKIPPED
            self.text(attributes.get("message", ""))
            self.text("\n")

    def end(self, name: str) -> None:
        self._depth -= 1
        if name == "testsuite":
            self._suites.pop()
        elif name == "testcase" and self._case is not None:
            self.counts[self._outcome] += 1
            failed = self._outcome is CaseOutcome.FAILED
            if len(self.cases) >= _MOST_CASES + (_MOST_FAILED if failed else 0):
                self._case = None
                return
            suite = self._case.get("classname") or (self._suites[-1] if self._suites else "")
            self.cases.append(
                TestCase(
                    suite[:LONGEST_NAME],
                    self._case.get("name", "")[:LONGEST_NAME],
                    _seconds(self._case.get("time", "")),
                    self._outcome,
                    "".join(self._output).strip(),
                    self._case.get("file", "")[:_LONGEST_PATH],
                    _line(self._case.get("line", "")),
                )
            )
            self._case = None
        elif name in _OUTPUTS:
            self._within = False

    def text(self, text: str) -> None:
        if self._case is not None and self._within:
            kept = text[: min(_LONGEST_OUTPUT - self._size, self._left)]
            self._output.append(kept)
            self._size += len(kept)
            self._left -= len(kept)


def _line(text: str) -> int:
    return int(text) if _LINE.fullmatch(text) else 0


def _seconds(text: str) -> float:
    try:
        seconds = float(text.replace(",", ""))
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < float("inf") else 0.0


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

    def named(self, name: str) -> str | None:
        """Return the path of a file that a report of coverage names; None if the repository has no such file.

        Go names files by the path of their module, which may begin with that of a host: parts before the path are left
        out. Other absolute paths are of the image. Where nobody knows the files, each name stands for itself.
        """
        if not self._paths:
            return name.removeprefix(_WORKSPACE).removeprefix("./")
        found = self._file(name)
        if found is not None or name.startswith("/"):
            return found
        rest = name
        while "/" in rest:
            rest = rest.partition("/")[2]
            if rest in self._paths:
                return rest
        return None

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
