"""The results of a build's tests, from the reports among its artifacts, without its secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.builds.attempt.workspace import source_manifest
from actors.test_reports.junit import LONGEST_NAME, CaseOutcome, NotReport, TestCase, read_report
from actors.test_reports.locations import Location, SourceFiles
from actors.vms import SourceError
from storage import ManifestUnreadable, Masker, SealBroken, immutable
from storage.files import EntryKind, differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage import Artifact, Build, Job, Storage

__all__ = ["LARGEST_REPORT", "NO_TESTS", "FailedTest", "TestResults", "read_artifact", "test_results"]

LARGEST_REPORT = 2 * 2**20
_MOST_ARTIFACTS = 1000
_MOST_REPORTS = 20
_LARGEST_SOURCE = 4 * 2**30


@immutable
class FailedTest:
    """A test that failed, and where; ``allowed`` if its job passed, or was allowed to fail."""

    case: TestCase
    location: Location | None
    allowed: bool


@immutable
class TestResults:
    """The number of a build's tests, and those that failed."""

    __test__ = False  # pytest would take it for tests

    count: int = 0
    failed: tuple[FailedTest, ...] = ()


NO_TESTS = TestResults()
"""The results of a build that has none."""


def read_artifact(storage: Storage, artifact: Artifact) -> list[TestCase]:
    """Return the tests of a report. Raises NotReport."""
    if artifact.file_size > LARGEST_REPORT:
        raise NotReport(f"it has more than {LARGEST_REPORT // 2**20} MiB")
    try:
        return read_report(storage.artifacts.path(artifact).read_bytes())
    except FileNotFoundError:
        raise NotReport("the file is gone") from None


def test_results(storage: Storage, build: Build, jobs: Sequence[Job]) -> TestResults:
    """Return the results of a build's tests, with the values of its secrets replaced.

    They go to people who may not see the artifacts. So there are none if a secret was changed since a job had it:
    its value of then is not known any more.
    """
    masker = _masker(storage, build, jobs)
    if masker is None:
        return NO_TESTS
    found = storage.artifacts.page_of_build(build.id, _MOST_ARTIFACTS, None).rows
    cases = []
    for artifact in [each for each in found if each.path.endswith(".xml")][:_MOST_REPORTS]:
        try:
            cases += [(artifact.job_uuid, case) for case in read_artifact(storage, artifact)]
        except NotReport:
            continue
    failed = [(job_uuid, case) for job_uuid, case in cases if case.outcome is CaseOutcome.FAILED]
    files = _files(storage, build) if failed else SourceFiles(())
    counted = {each.uuid for each in jobs if each.state.failed and not each.soft_failed}
    return TestResults(
        len(cases),
        tuple(
            FailedTest(_masked(case, masker), files.location(case), job_uuid not in counted)
            for job_uuid, case in failed
        ),
    )


def _masker(storage: Storage, build: Build, jobs: Sequence[Job]) -> Masker | None:
    """Return what hides the secrets of all jobs, since one may leave its own on the disk of another."""
    values: set[str] = set()
    for job in jobs:
        try:
            known = storage.secrets.unchanged(build, job)
        except SealBroken:
            return None
        if known is None:
            return None
        values |= set(known.values())
    return Masker.hiding(values)


def _masked(case: TestCase, masker: Masker) -> TestCase:
    """Hide secrets in a test's texts."""
    suite, name = (_hidden(each, masker, cut=len(each) >= LONGEST_NAME) for each in (case.suite, case.name))
    return replace(case, suite=suite, name=name, output=_hidden(case.output, masker, cut=True))


def _hidden(text: str, masker: Masker, *, cut: bool) -> str:
    """Hide secrets, and where a text is cut off also the beginning of one."""
    return bytes(masker.mask(text.encode(errors="replace"), more=cut)[0]).decode(errors="replace")


def _files(storage: Storage, build: Build) -> SourceFiles:
    """Return the files of a build's source; none if it is gone."""
    if not build.has_source:
        return SourceFiles(())
    try:
        found = list(differences(source_manifest(storage, build, _LARGEST_SOURCE), None))
    except (ManifestUnreadable, SourceError, FileNotFoundError):
        return SourceFiles(())
    return SourceFiles(each.path.decode(errors="replace") for each in found if each.after is EntryKind.FILE)
