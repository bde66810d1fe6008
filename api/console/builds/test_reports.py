"""The tests of a build, from the reports among its artifacts."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from api.console.builds.junit import CaseOutcome, NotReport, TestCase, read_report

if TYPE_CHECKING:
    from storage import Artifact, Storage

__all__ = ["BuildTests", "TestReports"]

_MOST_REPORTS = 20
_LARGEST = 2 * 2**20
_KEPT = 16


@dataclass(frozen=True, slots=True)
class BuildTests:
    """The tests of a build. ``faults`` says of which files that look like reports none could be read."""

    failed: tuple[TestCase, ...]
    skipped: tuple[TestCase, ...]
    passed: tuple[TestCase, ...]
    faults: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of all tests."""
        return len(self.failed) + len(self.skipped) + len(self.passed)


@dataclass(slots=True)
class TestReports:
    """The reports that were read last. Safe in any thread."""

    storage: Storage
    _read: OrderedDict[str, list[TestCase] | str] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of_build(self, build_id: int, most_artifacts: int) -> BuildTests:
        """Return the tests of a build: of each file that ends in ``.xml``, is not too large, and is a report."""
        files = self.storage.artifacts.page_of_build(build_id, most_artifacts, None).rows
        reports = [each for each in files if each.path.endswith(".xml")][:_MOST_REPORTS]
        read = {each.path: self._tests(each) for each in reports}
        cases = [case for found in read.values() if isinstance(found, list) for case in found]
        return BuildTests(
            failed=tuple(case for case in cases if case.outcome is CaseOutcome.FAILED),
            skipped=tuple(case for case in cases if case.outcome is CaseOutcome.SKIPPED),
            passed=tuple(case for case in cases if case.outcome is CaseOutcome.PASSED),
            faults=tuple(f"{path}: {found}" for path, found in read.items() if isinstance(found, str)),
        )

    def _tests(self, artifact: Artifact) -> list[TestCase] | str:
        """Return a file's tests, or why it has none; files do not change."""
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
        if artifact.file_size > _LARGEST:
            return f"it has more than {_LARGEST // 2**20} MiB"
        try:
            return read_report(self.storage.artifacts.path(artifact).read_bytes())
        except NotReport as error:
            return str(error)
        except FileNotFoundError:
            return "the file is gone"
