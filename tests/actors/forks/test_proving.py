from __future__ import annotations

from actors.forks.proving import verdicts
from actors.forks.running import RunOutcome
from actors.test_reports import CaseOutcome, TestCase
from storage import WHOLE_JOB, TestName

A, B = TestName("unit", "a"), TestName("unit", "b")


def done(exit_code: int = 1, *, timed_out: bool = False, reports: bool = True) -> RunOutcome:
    return RunOutcome(exit_code, "", 0, timed_out, 1.0, {"o.xml": b""} if reports else {})


def case(name: str, outcome: CaseOutcome, suite: str = "unit") -> TestCase:
    return TestCase(suite, name, 0.1, outcome, "")


def test_the_report_says_how_each_test_ended():
    cases = [case("a", CaseOutcome.PASSED), case("b", CaseOutcome.FAILED), case("b", CaseOutcome.PASSED)]
    assert verdicts([A, B], done(), cases, exit_counts=False) == {A: True, B: False}
    assert verdicts([A], done(0, timed_out=True), cases, exit_counts=False) == {A: True}


def test_what_a_report_does_not_say_does_not_count():
    cases = [
        case("a", CaseOutcome.SKIPPED),
        case("b", CaseOutcome.PASSED, suite="other"),
        case("B", CaseOutcome.FAILED),
    ]
    assert verdicts([A, B], done(), cases, exit_counts=False) == {}
    assert verdicts([A], done(reports=False), [], exit_counts=False) == {}
    assert verdicts([A], done(), [], exit_counts=True) == {}


def test_the_exit_code_counts_for_a_whole_job():
    for code, told in ((0, {WHOLE_JOB: True}), (1, {WHOLE_JOB: False}), (126, {}), (127, {})):
        assert verdicts([WHOLE_JOB], done(code, reports=False), [], exit_counts=True) == told
    assert verdicts([WHOLE_JOB], done(124, timed_out=True, reports=False), [], exit_counts=True) == {}
    assert verdicts([A, B], done(0, reports=False), [], exit_counts=True) == {}
