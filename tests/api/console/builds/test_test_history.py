"""The history of tests."""

from __future__ import annotations

from actors.test_reports import CaseOutcome, TestCase
from api.console.builds.test_history import CaseHistory, CaseName, PastReport, histories, outcomes_of

NAME = ("suite", "adds")


def history(*runs: tuple[str, CaseOutcome]) -> CaseHistory:
    """Return the history of a test of one build for each commit and outcome."""
    reports = [PastReport(n, commit, "unit", {NAME: outcome}) for n, (commit, outcome) in enumerate(runs, start=1)]
    return histories(reports)[CaseName("unit", *NAME)]


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
    failed = PastReport(1, "a", "old", {NAME: CaseOutcome.FAILED})
    passed = PastReport(1, "a", "new", {NAME: CaseOutcome.PASSED})
    assert not any(each.flaky for each in histories([failed, passed]).values())


def test_of_several_reports_of_a_build_the_failure_counts():
    first = PastReport(1, "a", "unit", {NAME: CaseOutcome.FAILED})
    (found,) = histories([first, PastReport(1, "a", "unit", {NAME: CaseOutcome.PASSED})]).values()
    assert [run.outcome for run in found.runs] == [CaseOutcome.FAILED]
    cases = [TestCase(*NAME, 0.0, outcome, "") for outcome in (CaseOutcome.SKIPPED, CaseOutcome.PASSED)]
    assert outcomes_of(cases) == {NAME: CaseOutcome.PASSED}
