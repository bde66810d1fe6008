"""The exceptions in the output of pipeline files."""

from __future__ import annotations

from actors.render.tracebacks import PipelineError, errors_in, printed_before

TWO = """printed first
Traceback (most recent call last):
  File "harmont/_envelope.py", line 90, in dump
    "pipelines": [
                 ^
  File "/workspace/.hm/ci.py", line 8, in ci
    return hm.sh("make", label=helper({}))
                               ^^^^^^^^^^
  File "/workspace/.hm/lib.py", line 4, in helper
    return x["missing"]
           ~^^^^^^^^^^^
KeyError: 'missing'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/workspace/.hm/ci.py", line 9, in ci
    raise RuntimeError("two\\nlines")
RuntimeError: two
lines
Traceback (most recent call last):
  File "/workspace/.hm/ci.py", line 12, in two
    return hm.sh(3)
  File "harmont/_sh.py", line 1, in sh
    raise TypeError(3)
TypeError: 3
"""


def test_each_exception_has_the_last_line_of_the_project():
    assert errors_in(TWO) == (
        PipelineError("RuntimeError: two\nlines", ".hm/ci.py", 9, 'raise RuntimeError("two\\nlines")'),
        PipelineError("TypeError: 3", ".hm/ci.py", 12, "return hm.sh(3)"),
    )


def test_the_same_exception_is_told_once():
    assert errors_in(f"{TWO}{TWO.partition('first')[2].strip()}") == errors_in(TWO)


def test_a_traceback_that_was_cut_has_its_line():
    cut = TWO.partition("RuntimeError: two")[0].partition("another")[2]
    assert errors_in(cut) == (PipelineError("", ".hm/ci.py", 9, 'raise RuntimeError("two\\nlines")'),)


def test_output_without_a_traceback_has_no_errors():
    assert errors_in("all is well\n  File none\n") == ()
    assert printed_before("all is well\n") == "all is well\n"
    assert printed_before(TWO) == "printed first"
