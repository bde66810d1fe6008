"""Problem matchers: the lines of compilers and linters."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.builds.attempt.log import MOST_FOUND, problems_of_logs
from actors.ir.problems import MATCHERS, Problem, find_problems
from storage import AnnotationLevel

ERROR, WARNING, NOTICE = AnnotationLevel

TRACEBACK = """\
Traceback (most recent call last):
  File "/workspace/a.py", line 3, in <module>
    f()
  File "/usr/lib/python3/json.py", line 9, in f
    raise
ValueError: bad thing
fine
  File ".venv/lib/site-packages/x.py", line 4, in f
KeyError
"""
STYLISH = """\
/workspace/src/a.js
  3:7   error    'x' is not defined  no-undef
  4:1   warning  y                   r

  5:1  error  of no file
"""


@pytest.mark.parametrize(
    ("name", "log", "found"),
    [
        ("gcc", "src/a.c:3:7: warning: unused [-Wx]", [(1, WARNING, "unused [-Wx]", "src/a.c", 3, 7, None)]),
        ("clang", "\x1b[1ma.c:1: fatal error: x.h\x1b[0m", [(1, ERROR, "x.h", "a.c", 1, None, None)]),
        ("gcc", "a.c:3:7: note: declared here\na.c: error: x", []),
        ("go", "# x/y\n./a.go:3:7: undefined: x", [(2, ERROR, "undefined: x", "./a.go", 3, 7, None)]),
        ("go", "vet: a.go:3:7: bad", [(1, ERROR, "bad", "a.go", 3, 7, None)]),
        ("rustc", "error[E0425]: no `y`\n --> src/a.rs:3:7", [(2, ERROR, "no `y`", "src/a.rs", 3, 7, "E0425")]),
        ("cargo", "warning: unused\n  --> a.rs:3:7", [(2, WARNING, "unused", "a.rs", 3, 7, None)]),
        ("rustc", "error: no `y`\n\n --> src/a.rs:3:7", []),
        ("javac", "src/A.java:3: error: ';' expected", [(1, ERROR, "';' expected", "src/A.java", 3, None, None)]),
        ("javac", "[WARNING] /w/A.java:[3,7] bad", [(1, WARNING, "bad", "/w/A.java", 3, 7, None)]),
        ("tsc", "src/a.ts(3,7): error TS2322: bad", [(1, ERROR, "bad", "src/a.ts", 3, 7, "TS2322")]),
        ("tsc", "src/a.ts:3:7 - error TS2322: bad", [(1, ERROR, "bad", "src/a.ts", 3, 7, "TS2322")]),
        ("eslint", "/w/a.js:3:7: No. [Warning/semi]", [(1, WARNING, "No.", "/w/a.js", 3, 7, "semi")]),
        (
            "eslint",
            STYLISH,
            [
                (2, ERROR, "'x' is not defined no-undef", "/workspace/src/a.js", 3, 7, None),
                (3, WARNING, "y r", "/workspace/src/a.js", 4, 1, None),
            ],
        ),
        ("flake8", "a.py:3:7: F401 'os' unused", [(1, ERROR, "'os' unused", "a.py", 3, 7, "F401")]),
        ("pylint", "a.py:3:0: C0114: Missing (x)", [(1, ERROR, "Missing (x)", "a.py", 3, 0, "C0114")]),
        ("ruff", "F401 [*] `os` unused\n --> a.py:3:7\n  |", [(2, ERROR, "`os` unused", "a.py", 3, 7, "F401")]),
        ("ruff", "a.py:3:7: E501 too long", [(1, ERROR, "too long", "a.py", 3, 7, "E501")]),
        ("mypy", "a.py:3:7: error: bad  [x]", [(1, ERROR, "bad [x]", "a.py", 3, 7, None)]),
        ("mypy", "a.py:3: note: look\na.py:3: error: b", [(2, ERROR, "b", "a.py", 3, None, None)]),
        ("python", TRACEBACK, [(6, ERROR, "ValueError: bad thing", "/workspace/a.py", 3, None, None)]),
        ("php", "PHP Parse error:  bad in /w/a.php on line 3", [(1, ERROR, "bad", "/w/a.php", 3, None, None)]),
        ("php", "Deprecated: x in y in a.php on line 3", [(1, WARNING, "x in y", "a.php", 3, None, None)]),
    ],
)
def test_a_line_of_a_program_is_a_problem(name: str, log: str, found: list[tuple[object, ...]]):
    shown = [
        (each.log_line, each.level, each.message, each.path, each.line, each.column, each.title)
        for each in find_problems(log.split("\n"), [name])
    ]
    assert shown == found


def test_a_problem_is_found_once_by_the_first_matcher():
    found = list(
        find_problems(["a.c:3: error: x", "10%\ra.c:3: error: x", "a.c:4: error: x"], ["mypy", "gcc", "unknown"])
    )
    assert found == [Problem("mypy", line, ERROR, "x", "a.c", at, None, None) for line, at in ((1, 3), (3, 4))]


def test_the_log_of_the_last_attempt_is_searched(tmp_path: Path):
    first, last = tmp_path / "1.log", tmp_path / "2.log"
    first.write_bytes(b"a.c:1: error: old\n" * 3)
    last.write_bytes(b"\xff\n" + b"".join(b"a.c:%d: error: new\n" % each for each in range(1, MOST_FOUND + 3)))
    rows, more = problems_of_logs([str(first), str(last)], ["gcc"])
    assert rows[0] == ("gcc", 5, "error", "new", "a.c", 1, None, None)
    assert (len(rows), more) == (MOST_FOUND, 2)


def test_every_matcher_is_named_in_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| Program |"))
    listed = text[text.index(row) :].split("\n\n")[0]
    assert [name for name in MATCHERS if f"`{name}`" not in listed] == []
