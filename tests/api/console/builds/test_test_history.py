"""The history of tests."""

from __future__ import annotations

from actors.test_reports import CaseOutcome, TestCase
from api.console.builds.test_history import CaseHistory, CaseName, Histories, PastReport, ReportOutcomes, outcomes_of

NAME = CaseName("suite", "adds")


def report(number: int, commit: str, step_key: str, outcome: CaseOutcome) -> PastReport:
    """Return a report of one test."""
    outcomes = outcomes_of([TestCase(*NAME, 0.0, outcome, "")])
    return PastReport(number, commit, step_key, outcomes)


def history(*runs: tuple[str, CaseOutcome]) -> CaseHistory:
    """Return the history of a test of one build for each commit and outcome."""
    reports = [report(number, commit, "unit", outcome) for number, (commit, outcome) in enumerate(runs, start=1)]
    return Histories(reports).of("unit", NAME)


def test_a_test_that_failed_and_passed_on_one_commit_is_flaky():
    failed, passed = CaseOutcome.FAILED, CaseOutcome.PASSED
    assert history(("a", failed), ("b", passed), ("a", passed)).flaky
    assert not history(("a", failed), ("b", passed)).flaky
    for tree in ("", "0" * 40):
        assert not history((tree, failed), (tree, passed)).flaky


def test_a_history_is_said_and_drawn():
    found = history(("a", CaseOutcome.PASSED), ("b", CaseOutcome.FAILED), ("c", CaseOutcome.PASSED))
    assert found.spoken == "failed in 1 of 3 builds"
    assert [run.number for run in found.failed] == [2]
    assert dict(found.paths) == {"failed": "M9 0h7v12h-7z", "passed": "M0 0h7v12h-7zM18 0h7v12h-7z"}
    assert history(("a", CaseOutcome.PASSED), ("b", CaseOutcome.SKIPPED)).spoken == "passed in 1 of 2 builds"


def test_the_same_test_of_another_step_is_another_test():
    found = Histories([report(1, "a", "old", CaseOutcome.FAILED), report(1, "a", "new", CaseOutcome.PASSED)])
    assert not any(found.of(step, NAME).flaky for step in ("old", "new"))
    assert (found.failed("old"), found.failed("new")) == ({NAME}, frozenset())


def test_of_several_reports_of_a_build_the_failure_counts():
    of_build = [report(1, "a", "unit", outcome) for outcome in (CaseOutcome.FAILED, CaseOutcome.PASSED)]
    found = Histories(of_build).of("unit", NAME)
    assert [run.outcome for run in found.runs] == [CaseOutcome.FAILED]
    cases = [TestCase(*NAME, 0.0, outcome, "") for outcome in (CaseOutcome.SKIPPED, CaseOutcome.PASSED)]
    assert outcomes_of(cases) == ReportOutcomes({NAME: CaseOutcome.PASSED}, frozenset())
