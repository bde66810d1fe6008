"""The tests of a build and their history, from the reports among the artifacts of builds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from actors.test_reports import CaseOutcome, NotReport, TestCase, read_artifact, read_reports
from api.console.builds.test_history import CaseHistory, CaseName, PastReport, histories, outcomes_of
from storage import immutable

if TYPE_CHECKING:
    from actors.test_reports import ReadReports, TestReport
    from api.console.builds.test_history import Outcomes
    from storage import Artifact, Build, Storage

__all__ = ["BuildTests", "ShownTest", "TestReports"]

_SUFFIX = ".xml"
_BUILDS = 20
_MOST_PAST_REPORTS = 200
_MOST_PAST_BYTES = 4 * 2**20
"""The bytes that are read for the history of one page; the next page reads on, as outcomes are kept."""

_LARGEST_PAST = 2 * 2**20
_KEPT_CASES = 50_000
_KEPT_OUTCOMES = 200_000


@immutable
class ShownTest:
    """A test of a build with the name of its job, and its history up to this build."""

    case: TestCase
    job: str
    history: CaseHistory


@immutable
class BuildTests:
    """The tests of a build that are shown; ``read`` has the number of all, and what could not be read."""

    tests: tuple[ShownTest, ...]
    read: ReadReports

    def count(self, outcome: str) -> int:
        """Return the number of tests with an outcome, listed or not."""
        return self.read.counts.get(CaseOutcome(outcome), 0)

    @property
    def unlisted(self) -> int:
        """The number of tests that are counted, but not among ``tests``."""
        return sum(self.read.counts.values()) - len(self.tests)

    @property
    def failed(self) -> tuple[ShownTest, ...]:
        """The tests that failed."""
        return self._of(CaseOutcome.FAILED)

    @property
    def skipped(self) -> tuple[ShownTest, ...]:
        """The tests that were skipped."""
        return self._of(CaseOutcome.SKIPPED)

    @property
    def passed(self) -> tuple[ShownTest, ...]:
        """The tests that passed."""
        return self._of(CaseOutcome.PASSED)

    @property
    def flaky(self) -> tuple[ShownTest, ...]:
        """The tests that failed and passed on one commit."""
        return tuple(each for each in self.tests if each.history.flaky)

    def _of(self, outcome: CaseOutcome) -> tuple[ShownTest, ...]:
        return tuple(each for each in self.tests if each.case.outcome is outcome)


@dataclass(slots=True)
class TestReports:
    """The reports that were read last; files do not change. Safe in any thread."""

    __test__ = False  # pytest would take it for tests
    storage: Storage
    _read: OrderedDict[str, TestReport | NotReport] = field(default_factory=OrderedDict)
    _outcomes: OrderedDict[str, Outcomes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of_build(self, build: Build) -> BuildTests:
        """Return the tests of a build: of each file that ends in ``.xml``, is not too large, and is a report."""
        read = read_reports(self.storage, build, self._tests)
        past = histories(self._past(build))
        jobs = {job.uuid: job for job in self.storage.jobs.of_build(build.id)}
        shown = []
        for each in read.reports:
            job = jobs.get(each.artifact.job_uuid)
            if job is None:
                continue
            for case in each.cases:
                history = past.get(CaseName(job.step_key, case.suite, case.name), CaseHistory())
                shown.append(ShownTest(case, job.name, history))
        return BuildTests(tuple(shown), read)

    def _past(self, build: Build) -> list[PastReport]:
        """Return the reports of the last builds up to this one, oldest first, as far as the bounds allow."""
        newest_first = self.storage.artifacts.past(
            build.pipeline_id, build.number, _BUILDS, _SUFFIX, _LARGEST_PAST, _MOST_PAST_REPORTS
        )
        found, left = [], _MOST_PAST_BYTES
        for each in newest_first:
            outcomes = self._outcomes.get(each.artifact.uuid)
            if outcomes is None:
                left -= each.artifact.file_size
                if left < 0:
                    break
                outcomes = self._read_outcomes(each.artifact)
            found.append(PastReport(each.number, each.commit or "", each.step_key, outcomes))
        return found[::-1]

    def _read_outcomes(self, artifact: Artifact) -> Outcomes:
        read = self._parse(artifact)
        outcomes = {} if isinstance(read, NotReport) else outcomes_of(read.cases)
        with self._lock:
            self._outcomes[artifact.uuid] = outcomes
            while sum(map(len, self._outcomes.values())) > _KEPT_OUTCOMES:
                self._outcomes.popitem(last=False)
        return outcomes

    def _tests(self, artifact: Artifact) -> TestReport | NotReport:
        """Return a file's tests, or why it has none."""
        with self._lock:
            if artifact.uuid in self._read:
                self._read.move_to_end(artifact.uuid)
                return self._read[artifact.uuid]
        found = self._parse(artifact)
        with self._lock:
            self._read[artifact.uuid] = found
            kept = sum(1 if isinstance(each, NotReport) else len(each.cases) + 1 for each in self._read.values())
            while kept > _KEPT_CASES and len(self._read) > 1:
                _, oldest = self._read.popitem(last=False)
                kept -= 1 if isinstance(oldest, NotReport) else len(oldest.cases) + 1
        return found

    def _parse(self, artifact: Artifact) -> TestReport | NotReport:
        try:
            return read_artifact(self.storage, artifact)
        except NotReport as error:
            return type(error)(str(error))  # this one would keep what was read in memory
