"""The tests of a build and their history, from the reports among the artifacts of builds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from actors.test_reports import LARGEST_REPORT, CaseOutcome, NotReport, TestCase, read_artifact
from api.console.builds.test_history import CaseHistory, CaseName, PastReport, histories, outcomes_of
from storage import immutable

if TYPE_CHECKING:
    from api.console.builds.test_history import Outcomes
    from storage import Artifact, Build, Storage

__all__ = ["BuildTests", "ShownTest", "TestReports"]

_SUFFIX = ".xml"
_MOST_REPORTS = 20
_BUILDS = 20
_MOST_PAST_REPORTS = 200
_MOST_PAST_BYTES = 4 * 2**20
"""The bytes that are read for the history of one page; the next page reads on, as outcomes are kept."""

_KEPT = 16
_KEPT_OUTCOMES = 200_000


@immutable
class ShownTest:
    """A test of a build with the name of its job, and its history up to this build."""

    case: TestCase
    job: str
    history: CaseHistory


@immutable
class BuildTests:
    """The tests of a build. ``faults`` says of which files that look like reports none could be read."""

    tests: tuple[ShownTest, ...]
    faults: tuple[str, ...]

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
    _read: OrderedDict[str, list[TestCase] | str] = field(default_factory=OrderedDict)
    _outcomes: OrderedDict[str, Outcomes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of_build(self, build: Build, most_artifacts: int) -> BuildTests:
        """Return the tests of a build: of each file that ends in ``.xml``, is not too large, and is a report."""
        files = self.storage.artifacts.page_of_build(build.id, most_artifacts, None).rows
        reports = [each for each in files if each.path.endswith(_SUFFIX)][:_MOST_REPORTS]
        read = [(each, self._tests(each)) for each in reports]
        past = histories(self._past(build))
        jobs = {job.uuid: job for job in self.storage.jobs.of_build(build.id)}
        shown = []
        for file, found in read:
            job = jobs.get(file.job_uuid)
            if job is None or isinstance(found, str):
                continue
            for case in found:
                history = past.get(CaseName(job.step_key, case.suite, case.name), CaseHistory())
                shown.append(ShownTest(case, job.name, history))
        faults = tuple(f"{file.path}: {found}" for file, found in read if isinstance(found, str))
        return BuildTests(tuple(shown), faults)

    def _past(self, build: Build) -> list[PastReport]:
        """Return the reports of the last builds up to this one, oldest first, as far as the bounds allow."""
        newest_first = self.storage.artifacts.past(
            build.pipeline_id, build.number, _BUILDS, _SUFFIX, LARGEST_REPORT, _MOST_PAST_REPORTS
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
        outcomes = {} if isinstance(read, str) else outcomes_of(read)
        with self._lock:
            self._outcomes[artifact.uuid] = outcomes
            while sum(map(len, self._outcomes.values())) > _KEPT_OUTCOMES:
                self._outcomes.popitem(last=False)
        return outcomes

    def _tests(self, artifact: Artifact) -> list[TestCase] | str:
        """Return a file's tests, or why it has none."""
        with self._lock:
            if artifact.uuid in self._read:
                self._read.move_to_end(artifact.uuid)
                return self._read[artifact.uuid]
        found = self._parse(artifact)
        with self._lock:
            self._read[artifact.uuid] = found
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return found

    def _parse(self, artifact: Artifact) -> list[TestCase] | str:
        try:
            return read_artifact(self.storage, artifact)
        except NotReport as error:
            return str(error)
