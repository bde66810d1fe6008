"""The results of a build's tests, from the reports among its artifacts, without its secrets."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from actors.builds.attempt.workspace import source_manifest
from actors.test_reports.junit import (
    LONGEST_NAME,
    CaseOutcome,
    Location,
    NotReport,
    ReportUnreadable,
    SourceFiles,
    TestCase,
    TestReport,
    read_confined,
)
from actors.vms import SourceError
from storage import ManifestUnreadable, Masker, SealBroken, immutable
from storage.files import EntryKind, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from storage import Artifact, Build, Job, Storage

LARGEST_REPORT = 10 * 2**20
_SUFFIX = ".xml"
_MOST_REPORTS = 1_000
_MOST_BYTES = 40 * 2**20
_MOST_CASES = 50_000
_LARGEST_SOURCE = 4 * 2**30
_MOST_SECRET_CHARS = 2**20
"""As many as one job can have; a build's jobs may have as many each, which would take long to hide."""


@immutable
class ReportFile:
    """A report among the artifacts of a build, with its tests as far as there is room for them."""

    artifact: Artifact
    cases: tuple[TestCase, ...]


@immutable
class ReadReports:
    """The reports of a build, as far as the bounds allow.

    ``counts`` is of all tests in the reports that were read. ``faults`` says why a file was not read. ``files`` is the
    number of files that may be reports, and ``unread`` of them those that were not read.
    """

    reports: tuple[ReportFile, ...] = ()
    counts: Mapping[CaseOutcome, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    unread: int = 0
    files: int = 0

    @property
    def left_out(self) -> str | None:
        """A sentence about the files that are not in the numbers; None if all are."""
        if not self.unread:
            return None
        return f"{self.files - self.unread:,} of {self.files:,} report files were read; the numbers are of these"


@immutable
class FailedTest:
    """A test that failed, and where; ``allowed`` if its job passed, or was allowed to fail."""

    case: TestCase
    location: Location | None
    allowed: bool


@immutable
class TestResults:
    """The numbers of a build's tests and failures; only some of the failures are named.

    ``left_out`` is a sentence about reports that could not be read.
    """

    __test__ = False  # pytest would take it for tests

    count: int = 0
    failed: tuple[FailedTest, ...] = ()
    failures: int = 0
    left_out: str | None = None


NO_TESTS: TestResults = TestResults()
"""The results of a build that has none."""


def read_artifact(storage: Storage, artifact: Artifact) -> TestReport:
    """Return the tests of a report. Raises NotReport."""
    if artifact.file_size > LARGEST_REPORT:
        raise ReportUnreadable(f"it has more than {LARGEST_REPORT // 2**20} MiB")
    try:
        build = storage.builds.by_uuid(artifact.build_uuid)
        owner = artifact.build_uuid if build is None else build.organization_slug
        return read_confined(storage.confinement, owner, storage.artifacts.path(artifact))
    except OSError as error:
        gone = "the file is gone" if isinstance(error, FileNotFoundError) else f"it cannot be read: {error.strerror}"
        raise ReportUnreadable(gone) from None


def read_reports(storage: Storage, build: Build, read: Callable[[Artifact], TestReport | NotReport]) -> ReadReports:
    """Read the reports among a build's artifacts: at most 1,000 of 40 MiB, each by ``read``.

    A file that a job kept under several names is read once. At most 50,000 tests are kept, first of all those that
    failed.
    """
    found = storage.artifacts.ending(build.id, _SUFFIX, _MOST_REPORTS)
    more = storage.artifacts.count_ending(build.id, _SUFFIX) - len(found)
    reports: list[ReportFile] = []
    counts: Counter[CaseOutcome] = Counter()
    faults: list[str] = []
    seen: set[tuple[str, int]] = set()
    unread, others, room, left = more, 0, _MOST_CASES, _MOST_BYTES
    for artifact in found:
        same = (artifact.job_uuid, _file_number(storage.artifacts.path(artifact)))
        if same[1] and same in seen:
            others += 1
            continue
        seen.add(same)
        if min(artifact.file_size, LARGEST_REPORT) > left:
            unread += 1
            continue
        report = read(artifact)
        if isinstance(report, NotReport):
            faults.append(f"{artifact.path}: {report}")
            unread += isinstance(report, ReportUnreadable)
            others += not isinstance(report, ReportUnreadable)
            continue
        left -= artifact.file_size
        counts.update(report.counts)
        cases = report.cases
        if len(cases) > room:
            cases = tuple(sorted(cases, key=lambda case: case.outcome is not CaseOutcome.FAILED)[:room])
        room -= len(cases)
        reports.append(ReportFile(artifact, cases))
    return ReadReports(tuple(reports), counts, tuple(faults), unread, len(found) + more - others)


def test_results(storage: Storage, build: Build, jobs: Sequence[Job]) -> TestResults:
    """Return the results of a build's tests, with the values of its secrets replaced.

    They go to people who may not see the artifacts. So there are none if a secret was changed since a job had it:
    its value of then is not known any more.
    """
    masker = _masker(storage, build, jobs)
    if masker is None:
        return NO_TESTS

    def read(artifact: Artifact) -> TestReport | NotReport:
        try:
            return read_artifact(storage, artifact)
        except NotReport as error:
            return error

    found = read_reports(storage, build, read)
    failed = [
        (each.artifact.job_uuid, case)
        for each in found.reports
        for case in each.cases
        if case.outcome is CaseOutcome.FAILED
    ]
    files = source_files(storage, build) if failed else SourceFiles(())
    counted = {each.uuid for each in jobs if each.state.failed and not each.soft_failed}
    return TestResults(
        sum(found.counts.values()),
        tuple(
            FailedTest(_masked(case, masker), files.location(case), job_uuid not in counted)
            for job_uuid, case in failed
        ),
        found.counts.get(CaseOutcome.FAILED, 0),
        found.left_out,
    )


def _file_number(path: Path) -> int:
    """Return the number of a file, which all its names share; 0 if it is gone."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _masker(storage: Storage, build: Build, jobs: Sequence[Job]) -> Masker | None:
    """Return what hides the secrets of all jobs, since one may leave its own on the disk of another.

    None if one of them is not known any more, or if they are too many.
    """
    values: set[str] = set()
    for job in jobs:
        try:
            known = storage.job_secrets.unchanged(build, job)
        except SealBroken:
            return None
        if known is None:
            return None
        values |= set(known.values())
        if sum(map(len, values)) > _MOST_SECRET_CHARS:
            return None
    return Masker.hiding(values)


def _masked(case: TestCase, masker: Masker) -> TestCase:
    """Hide secrets in a test's texts."""
    suite, name = (_hidden(each, masker, cut=len(each) >= LONGEST_NAME) for each in (case.suite, case.name))
    return replace(case, suite=suite, name=name, output=_hidden(case.output, masker, cut=True))


def _hidden(text: str, masker: Masker, *, cut: bool) -> str:
    """Hide secrets, and where a text is cut off also the beginning of one."""
    return bytes(masker.mask(text.encode(errors="replace"), more=cut)[0]).decode(errors="replace")


def source_files(storage: Storage, build: Build) -> SourceFiles:
    """Return the files of a build's source; none if it is gone."""
    if not build.has_source:
        return SourceFiles(())
    try:
        found = list(differences(source_manifest(storage, build, _LARGEST_SOURCE), None))
    except (ManifestUnreadable, SourceError, FileNotFoundError):
        return SourceFiles(())
    return SourceFiles(each.path.decode(errors="replace") for each in found if each.after is EntryKind.FILE)
