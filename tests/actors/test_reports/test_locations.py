"""The places of failures, in the ways in which test runners name them."""

from __future__ import annotations

import pytest

from actors.test_reports.junit import CaseOutcome, Location, SourceFiles, TestCase

FILES = SourceFiles(["tests/test_a.py", "src/add.py", "web/src/a.test.js", "pkg/b/b_test.go", "x/c.py", "y/c.py"])


def at(suite: str = "", output: str = "", file: str = "", line: int = 0) -> Location | None:
    return FILES.location(TestCase(suite, "adds", 0.1, CaseOutcome.FAILED, output, file, line))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (at("tests.test_a", "src/add.py:2: in add\ntests/test_a.py:12: AssertionError"), ("tests/test_a.py", 12)),
        (at("tests.test_a.TestAdd", "E assert 2 == 3"), ("tests/test_a.py", 1)),
        (at("tests.test_a", "", "tests/test_a.py", 7), ("tests/test_a.py", 7)),
        (at("test_a", '  File "/workspace/tests/test_a.py", line 4, in test'), ("tests/test_a.py", 4)),
        (at("adds", "at x (/workspace/web/src/a.test.js:5:10)"), ("web/src/a.test.js", 5)),
        (at("adds", "Error\n  at src/a.test.js:6:1", "src/a.test.js"), ("web/src/a.test.js", 6)),
        (at("pkg/b", "    b_test.go:31: wrong"), ("pkg/b/b_test.go", 31)),
        (at("suite", "./src/add.py:0: wrong"), ("src/add.py", 1)),
    ],
)
def test_a_runners_way_to_name_a_place_is_read(found: Location | None, expected: tuple[str, int]):
    assert found == Location(*expected)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "c.py:3: two files end so",
        "/usr/lib/python3/src/add.py:3: not of the repository",
        "../../etc/passwd:1: x",
        "10:30:15 started",
        "src/add.py:99999999999: no line",
    ],
)
def test_what_is_no_file_of_the_repository_is_no_place(output: str):
    assert at("other", output) is None


def test_reports_of_coverage_name_files_in_their_own_ways():
    files = SourceFiles(["src/main/java/com/acme/A.java", "web/main.go", "src/a.py"])
    names = {
        "com/acme/A.java": "src/main/java/com/acme/A.java",
        "example.org/acme/demo/web/main.go": "web/main.go",
        "/workspace/src/a.py": "src/a.py",
        "a.py": "src/a.py",
        "/usr/lib/python3/src/a.py": None,
        "other.py": None,
    }
    assert {name: files.named(name) for name in names} == names
    assert SourceFiles(()).named("/workspace/src/b.py") == "src/b.py"
