"""The history of tests over the last builds; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actors.test_reports import WORST_FIRST, CaseOutcome
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.test_reports import TestCase

_WIDTH, _HEIGHT, _STEP = 7, 12, 9


class CaseName(NamedTuple):
    """A test of a report."""

    suite: str
    name: str


@immutable
class ReportOutcomes:
    """The outcome of each test of a report, and which of them failed."""

    of: Mapping[CaseName, CaseOutcome]
    failed: frozenset[CaseName]


@immutable
class PastReport:
    """The outcomes in one report of a step of a build."""

    number: int
    commit: str
    step_key: str
    outcomes: ReportOutcomes


@immutable
class PastRun:
    """The outcome of a test in one build."""

    number: int
    commit: str
    outcome: CaseOutcome


@immutable
class CaseHistory:
    """The runs of a test, oldest first."""

    runs: tuple[PastRun, ...] = ()

    @property
    def failed(self) -> tuple[PastRun, ...]:
        """The runs that failed, newest first."""
        return tuple(run for run in reversed(self.runs) if run.outcome is CaseOutcome.FAILED)

    @property
    def flaky(self) -> bool:
        """True if it failed and passed on one commit. A tree without a commit has none, or one of zeros."""
        passed = {run.commit for run in self.runs if run.commit.strip("0") and run.outcome is CaseOutcome.PASSED}
        return any(run.commit in passed for run in self.failed)

    @property
    def spoken(self) -> str:
        """The history in words."""
        if self.failed:
            return f"failed in {len(self.failed)} of {len(self.runs)} builds"
        passed = sum(run.outcome is CaseOutcome.PASSED for run in self.runs)
        return f"passed in {passed} of {len(self.runs)} builds"

    @property
    def width(self) -> int:
        """The width of its drawing."""
        return len(self.runs) * _STEP

    @property
    def paths(self) -> tuple[tuple[CaseOutcome, str], ...]:
        """For each outcome a path of squares, in the order of the runs."""
        return tuple(
            (
                outcome,
                "".join(
                    f"M{place * _STEP} 0h{_WIDTH}v{_HEIGHT}h-{_WIDTH}z"
                    for place, run in enumerate(self.runs)
                    if run.outcome is outcome
                ),
            )
            for outcome in CaseOutcome
            if any(run.outcome is outcome for run in self.runs)
        )


def outcomes_of(cases: Iterable[TestCase]) -> ReportOutcomes:
    """Return the outcome of each suite and name; of several the one that matters most."""
    found: dict[CaseName, CaseOutcome] = {}
    for case in cases:
        name = CaseName(case.suite, case.name)
        found[name] = min(found.get(name, case.outcome), case.outcome, key=WORST_FIRST.index)
    return ReportOutcomes(found, frozenset(name for name, each in found.items() if each is CaseOutcome.FAILED))


class Histories:
    """The histories of the tests of all steps, from reports, those of the oldest build first.

    The same test in another step, as in a matrix, is another one. A history is made when it is asked for: reports have
    hundreds of thousands of outcomes, and a page shows few tests.
    """

    def __init__(self, reports: Iterable[PastReport]) -> None:
        self._reports: dict[str, list[PastReport]] = {}
        for report in reports:
            self._reports.setdefault(report.step_key, []).append(report)

    def of(self, step_key: str, name: CaseName) -> CaseHistory:
        """Return the history of a test."""
        runs: dict[int, PastRun] = {}
        for report in self._reports.get(step_key, ()):
            outcome = report.outcomes.of.get(name)
            if outcome is not None:
                before = runs.get(report.number)
                worst = outcome if before is None else min(before.outcome, outcome, key=WORST_FIRST.index)
                runs[report.number] = PastRun(report.number, report.commit, worst)
        return CaseHistory(tuple(runs.values()))

    def failed(self, step_key: str) -> frozenset[CaseName]:
        """Return the tests of a step that failed at least once; no other one is flaky."""
        return frozenset[CaseName]().union(*(report.outcomes.failed for report in self._reports.get(step_key, ())))
