"""The tests in the reports of builds, for the API and for pages: those that were read last are kept."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import groupby, islice
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from actors.test_reports import WORST_FIRST, NotReport, TestCase, read_artifact, read_reports
from storage import Page, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.test_reports import ReadReports, TestReport
    from storage import Artifact, Build, PastArtifact, Storage

_SUFFIX = ".xml"
_KEPT_CASES = 50_000
_MOST_PAST_REPORTS = 1_000
_LARGEST_PAST = 2 * 2**20
_MOST_PAST_BYTES = 4 * 2**20
"""The bytes that are read for one page of a history; the next page reads on."""

_MOST_BYTES_OF_BUILD = 40 * 2**20
_ROWS = 4096
"""The rows that a build may have in a history: one for each of its steps that ran the test."""


@immutable
class ListedTest:
    """A test of a build, and the artifact that reports it."""

    artifact: Artifact
    case: TestCase


@immutable
class PastTest:
    """A test in a step of a build: of several there with its names, the one whose outcome counts."""

    number: int
    commit: str | None
    step_key: str
    case: TestCase


@immutable
class TestQuestion:
    """The test whose history is asked for: its name on a branch; None of the others stands for all."""

    __test__ = False  # pytest would take it for tests

    pipeline_id: int
    branch: str
    name: str
    suite: str | None = None
    step_key: str | None = None

    def asks_for(self, case: TestCase) -> bool:
        """Tell whether a test has these names."""
        return case.name == self.name and self.suite in {None, case.suite}


@dataclass(slots=True)
class KeptReports:
    """The reports that were read last; files do not change. Safe in any thread."""

    storage: Storage
    _read: OrderedDict[str, TestReport | NotReport] = field(default_factory=OrderedDict)
    _turns: WeakValueDictionary[str, Lock] = field(default_factory=WeakValueDictionary)
    """A lock for each file that is being read."""

    _lock: Lock = field(default_factory=Lock)

    def of_build(self, build: Build) -> ReadReports:
        """Return the reports of a build: files that end in ``.xml``, if they are not too large."""
        return read_reports(self.storage, build, self._tests)

    def page(self, build: Build, wanted: Callable[[ListedTest], bool], limit: int, after: int) -> Page[ListedTest]:
        """Return tests of a build past a position in the order of its reports."""
        reports = self.of_build(build).reports
        every = (ListedTest(each.artifact, case) for each in reports for case in each.cases)
        found = ((at, each) for at, each in enumerate(every, start=1) if at > after and wanted(each))
        rows = tuple(islice(found, limit + 1))
        return Page(tuple(each for _, each in rows[:limit]), rows[limit - 1][0] if len(rows) > limit else None)

    def history(self, question: TestQuestion, limit: int, after: int | None) -> Page[PastTest]:
        """Return runs of a test in builds of a branch, newest first.

        A page may have few rows, or none, although others follow: it looks at so many builds, and reads so many bytes.
        """
        newest, given = (2**50, 0) if after is None else divmod(after, _ROWS)
        numbers = self.storage.artifacts.numbers(question.pipeline_id, question.branch, newest, limit + 1)
        if not numbers:
            return Page((), None)
        following = numbers[limit] * _ROWS if len(numbers) > limit else None
        found = self.storage.artifacts.of_branch(
            question.pipeline_id,
            question.branch,
            (numbers[:limit][-1], newest),
            _SUFFIX,
            _LARGEST_PAST,
            _MOST_PAST_REPORTS,
        )
        builds = [(number, list(each)) for number, each in groupby(found, key=lambda past: past.number)]
        if len(found) == _MOST_PAST_REPORTS:  # the last build may have more
            following = (builds.pop()[0] if len(builds) > 1 else builds[0][0] - 1) * _ROWS
        rows: list[PastTest] = []
        left = _MOST_PAST_BYTES
        for number, artifacts in builds:
            cost = sum(each.artifact.file_size for each in artifacts if not self._is_kept(each.artifact))
            if cost > left < _MOST_PAST_BYTES:
                return Page(tuple(rows), number * _ROWS)
            left -= cost
            before = given if number == newest else 0
            for at, row in enumerate(self._runs(question, artifacts)[before:], start=before):
                if len(rows) == limit:
                    return Page(tuple(rows), number * _ROWS + at)
                rows.append(row)
        return Page(tuple(rows), following)

    def _runs(self, question: TestQuestion, artifacts: list[PastArtifact]) -> list[PastTest]:
        """Return the runs of a test in the steps of one build."""
        runs: dict[str, PastTest] = {}
        left = _MOST_BYTES_OF_BUILD
        for past in artifacts:
            left -= past.artifact.file_size
            if left < 0:
                break
            if question.step_key not in {None, past.step_key}:
                continue
            for case in self._cases(question, past.artifact):
                known = runs.get(past.step_key)
                run = PastTest(past.number, past.commit, past.step_key, case)
                if known is None or WORST_FIRST.index(case.outcome) < WORST_FIRST.index(known.case.outcome):
                    runs[past.step_key] = run
        return list(runs.values())[:_ROWS]

    def _cases(self, question: TestQuestion, artifact: Artifact) -> Iterator[TestCase]:
        read = self._tests(artifact)
        if not isinstance(read, NotReport):
            yield from filter(question.asks_for, read.cases)

    def _is_kept(self, artifact: Artifact) -> bool:
        with self._lock:
            return artifact.uuid in self._read

    def _tests(self, artifact: Artifact) -> TestReport | NotReport:
        """Return a file's tests, or why it has none. Several may ask at once, and one reads it."""
        with self._lock:
            turn = self._turns.setdefault(artifact.uuid, Lock())
        with turn:
            kept = self._kept(artifact)
            return self._keep(artifact, read_again(self.storage, artifact)) if kept is None else kept

    def _kept(self, artifact: Artifact) -> TestReport | NotReport | None:
        with self._lock:
            kept = self._read.get(artifact.uuid)
            if kept is not None:
                self._read.move_to_end(artifact.uuid)
            return kept

    def _keep(self, artifact: Artifact, found: TestReport | NotReport) -> TestReport | NotReport:
        with self._lock:
            self._read[artifact.uuid] = found
            kept = sum(_count(each) for each in self._read.values())
            while kept > _KEPT_CASES and len(self._read) > 1:
                _, oldest = self._read.popitem(last=False)
                kept -= _count(oldest)
        return found


def _count(read: TestReport | NotReport) -> int:
    return 1 if isinstance(read, NotReport) else len(read.cases) + 1


def read_again(storage: Storage, artifact: Artifact) -> TestReport | NotReport:
    """Return a file's tests as they are on the disk, or why it has none."""
    try:
        return read_artifact(storage, artifact)
    except NotReport as error:
        return type(error)(str(error))  # this one would keep what was read in memory
