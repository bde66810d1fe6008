"""The tests of a build and their history, from the reports among the artifacts of builds."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from actors.test_reports import CaseOutcome, NotReport, TestCase
from api.builds.test_reports import KeptReports, read_again
from api.console.builds.test_history import CaseName, Histories, PastReport, outcomes_of
from storage import immutable

if TYPE_CHECKING:
    from actors.test_reports import ReadReports
    from api.console.builds.test_history import CaseHistory, ReportOutcomes
    from storage import Artifact, Build, Job, Storage

MOST_SHOWN = 500
"""The most tests in a list of a page."""

_SUFFIX = ".xml"
_BUILDS = 20
_MOST_PAST_REPORTS = 200
_MOST_PAST_BYTES = 4 * 2**20
"""The bytes that are read for the history of one page; the next page reads on, as outcomes are kept."""

_LARGEST_PAST = 2 * 2**20
_KEPT_OUTCOMES = 200_000
_MOST_PAST_OUTCOMES = _KEPT_OUTCOMES // 2
"""The outcomes in the history of one page, so that those that are kept are used by the next page."""

_MOST_DOUBTED = 2_000
"""The most tests that failed before of which a page finds out whether they are flaky."""


@immutable
class ShownTest:
    """A test of a build with the name and the UUID of its job, and its history up to this build."""

    case: TestCase
    job: str
    job_id: str
    history: CaseHistory


@immutable
class ShownTests:
    """A list of tests, of which there may be ``more`` than it shows."""

    tests: tuple[ShownTest, ...] = ()
    more: bool = False


@immutable
class BuildTests:
    """The tests of a build; ``flaky`` are those that failed and passed on one commit.

    ``read`` has the number of all, and what could not be read; ``unlisted`` tests are counted in it, and no more known.
    """

    failed: ShownTests
    skipped: ShownTests
    passed: ShownTests
    flaky: ShownTests
    read: ReadReports
    unlisted: int

    def count(self, outcome: str) -> int:
        """Return the number of tests with an outcome, listed or not."""
        return self.read.counts.get(CaseOutcome(outcome), 0)


@dataclass(slots=True)
class TestReports:
    """The tests of builds for pages, with the outcomes that were read last. Safe in any thread."""

    __test__ = False  # pytest would take it for tests
    storage: Storage
    reports: KeptReports
    _outcomes: OrderedDict[str, ReportOutcomes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of_build(self, build: Build) -> BuildTests:
        """Return the tests of a build: of each file that ends in ``.xml``, is not too large, and is a report."""
        read = self.reports.of_build(build)
        past = Histories(self._past(build))
        jobs = {job.uuid: job for job in self.storage.jobs.of_build(build.id)}
        known, found = 0, _Found(past)
        for each in read.reports:
            job = jobs.get(each.artifact.job_uuid)
            if job is not None:
                known += len(each.cases)
                found.add(job, each.cases)
        return BuildTests(
            failed=found.shown(CaseOutcome.FAILED),
            skipped=found.shown(CaseOutcome.SKIPPED),
            passed=found.shown(CaseOutcome.PASSED),
            flaky=ShownTests(tuple(found.flaky[:MOST_SHOWN]), len(found.flaky) > MOST_SHOWN),
            read=read,
            unlisted=sum(read.counts.values()) - known,
        )

    def _past(self, build: Build) -> list[PastReport]:
        """Return the reports of the last builds up to this one, oldest first, as far as the bounds allow."""
        newest_first = self.storage.artifacts.past(
            build.pipeline_id, build.number, _BUILDS, _SUFFIX, _LARGEST_PAST, _MOST_PAST_REPORTS
        )
        found, left, room = [], _MOST_PAST_BYTES, _MOST_PAST_OUTCOMES
        for each in newest_first:
            outcomes = self._kept_outcomes(each.artifact)
            if outcomes is None:
                left -= each.artifact.file_size
                if left < 0:
                    break
                outcomes = self._read_outcomes(each.artifact)
            room -= len(outcomes.of)
            if room < 0:
                break
            found.append(PastReport(each.number, each.commit or "", each.step_key, outcomes))
        return found[::-1]

    def _kept_outcomes(self, artifact: Artifact) -> ReportOutcomes | None:
        with self._lock:
            kept = self._outcomes.get(artifact.uuid)
            if kept is not None:
                self._outcomes.move_to_end(artifact.uuid)
            return kept

    def _read_outcomes(self, artifact: Artifact) -> ReportOutcomes:
        read = read_again(self.storage, artifact)
        outcomes = outcomes_of(() if isinstance(read, NotReport) else read.cases)
        with self._lock:
            self._outcomes[artifact.uuid] = outcomes
            kept = sum(len(each.of) for each in self._outcomes.values())
            while kept > _KEPT_OUTCOMES:
                kept -= len(self._outcomes.popitem(last=False)[1].of)
        return outcomes


class _Found:
    """The tests of a build as they are found: few of each outcome are shown, and all are looked through."""

    def __init__(self, past: Histories) -> None:
        self._past = past
        self._first: dict[CaseOutcome, list[tuple[Job, TestCase]]] = {outcome: [] for outcome in CaseOutcome}
        self._count: Counter[CaseOutcome] = Counter()
        self._doubted = 0
        self.flaky: list[ShownTest] = []

    def add(self, job: Job, cases: tuple[TestCase, ...]) -> None:
        """Take the tests in a report of a job."""
        failed = self._past.failed(job.step_key)
        for case in cases:
            outcome = case.outcome
            self._count[outcome] += 1
            if self._count[outcome] <= MOST_SHOWN:
                self._first[outcome].append((job, case))
            if failed and self._doubted < _MOST_DOUBTED and (case.suite, case.name) in failed:
                self._doubted += 1
                shown = self._shown(job, case)
                if shown.history.flaky:
                    self.flaky.append(shown)

    def shown(self, outcome: CaseOutcome) -> ShownTests:
        """Return the tests with an outcome."""
        first = self._first[outcome]
        return ShownTests(tuple(self._shown(job, case) for job, case in first), self._count[outcome] > len(first))

    def _shown(self, job: Job, case: TestCase) -> ShownTest:
        return ShownTest(case, job.name, job.uuid, self._past.of(job.step_key, CaseName(case.suite, case.name)))
