"""Annotations: tests that failed, at their lines in the files of a commit. Pure."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from actors.source_hosts.github.markdown import last_lines, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.test_reports import FailedTest, TestResults

_MOST = 50
"""The most annotations that GitHub takes with one request."""

_LONGEST_TITLE = 250
_LONGEST_MESSAGE = 4_000
_MOST_LINES = 200
_MOST_NAMES = 20


def annotated_tests(tests: TestResults) -> list[Mapping[str, object]]:
    """Return the annotations of a check run: of the tests that failed in a file of the repository."""
    placed = [each for each in tests.failed if each.location is not None]
    return [_annotation(each) for each in sorted(placed, key=lambda each: each.allowed)[:_MOST]]


def summary_of_tests(tests: TestResults) -> str | None:
    """Return the failed tests by name, and what is not shown; None if there is nothing to say."""
    notes = [f"{tests.left_out}."] if tests.left_out else []
    placed = sum(each.location is not None for each in tests.failed)
    if placed > _MOST:
        notes.append(f"Of {placed} failed tests in files of the repository, the first {_MOST} are annotated.")
    if tests.failures:
        names = [f"- {plain(_name(each))}" for each in tests.failed[:_MOST_NAMES]]
        more = tests.failures - len(names)
        if more:
            names.append(f"- … and {more} more")
        notes.insert(0, "\n".join([f"#### {tests.failures} of {tests.count} tests failed", "", *names]))
    return "\n\n".join(notes) or None


def _annotation(failed: FailedTest) -> Mapping[str, object]:
    path, line = ("", 1) if failed.location is None else (failed.location.path, failed.location.line)
    message = last_lines(failed.case.output.encode(errors="replace"), _MOST_LINES, _LONGEST_MESSAGE)
    return {
        "path": path,
        "start_line": line,
        "end_line": line,
        "annotation_level": "warning" if failed.allowed else "failure",
        "title": _name(failed)[:_LONGEST_TITLE],
        "message": message or "This test failed.",
    }


def _name(failed: FailedTest) -> str:
    name = " ".join(each for each in (failed.case.suite, failed.case.name) if each) or "a test without a name"
    return "".join(each if not unicodedata.category(each).startswith("C") else " " for each in name)
