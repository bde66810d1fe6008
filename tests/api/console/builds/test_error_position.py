"""The position of the error of a rejected pipeline."""

from __future__ import annotations

import tracemalloc

import pytest

from actors.ir import IrError, IrSettings, load
from api.console.builds import error_position
from api.console.builds.error_position import cause_of, positions_of

TRACEBACK = """printed first
Traceback (most recent call last):
  File "/workspace/.hm/a.py", line 3, in <module>
    steps = make()
            ^^^^^^
  File "/workspace/.hm/lib/b.py", line 17, in make
    return one + two
           ~~~~^~~~~
TypeError: unsupported
"""


def test_a_traceback_gives_the_last_line_in_the_pipeline_files():
    (found,) = positions_of("render failed (exit 1): …", TRACEBACK, None)
    assert found.place == ".hm/lib/b.py, line 17"
    assert found.excerpt == "return one + two\n       ~~~~^~~~~"


def test_the_message_serves_if_there_is_no_log():
    (found,) = positions_of('failed: Traceback:\n  File "/workspace/.hm/a.py", line 1\n    x =\n      ^\n', "", None)
    assert (found.place, found.excerpt) == (".hm/a.py, line 1", "x =\n  ^")


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("a number is expected", "a number is expected"),
        ("Traceback (most recent call last):\n", "Traceback (most recent call last):\n"),
        (
            f"render failed (exit 1): {TRACEBACK.partition(chr(10))[2]}",
            "render failed (exit 1): TypeError: unsupported",
        ),
        ('Traceback (most recent call last):\n  File "a"\nError: one\ntwo\n', "Error: one\ntwo"),
        ("Traceback (most recent call last):\n  cut here", "cut here"),
    ],
)
def test_the_cause_is_the_error_that_ends_a_traceback(message: str, cause: str):
    assert cause_of(message) == cause


@pytest.mark.parametrize("text", ['{"version": "0",\n\t"steps": oops}', "x" * 500])
def test_an_error_in_json_is_marked(text: str):
    with pytest.raises(IrError) as rejected:
        load(text, IrSettings())
    (found,) = positions_of(rejected.value.message, "", text)
    shown, mark = found.excerpt.split("\n")
    assert shown[mark.index("^")] in "ox"
    assert len(shown) <= 120


def test_a_wrong_value_is_shown():
    text = '{"version": "0", "steps": [{"type": "command", "key": "a", "cmd": "true", "timeout_seconds": "<b>"}]}'
    with pytest.raises(IrError) as rejected:
        load(text, IrSettings())
    (found,) = positions_of(rejected.value.message, "", text)
    assert found.place == "steps[0].timeout_seconds of the pipeline as JSON"
    assert found.excerpt == '"<b>"'


def test_of_a_large_value_only_the_beginning_is_encoded():
    text = f'{{"steps": [{"0," * 1_000_000}0]}}'
    tracemalloc.start()
    try:
        (found,) = positions_of("steps: expected an array", "", text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert (len(found.excerpt), found.excerpt[:2]) == (400, "[\n")
    assert peak < 10 * len(text)


def test_a_value_that_is_too_deep_is_not_shown():
    (found,) = positions_of("steps: expected an array", "", "[" * 100_000)
    assert found.excerpt == ""


@pytest.mark.parametrize("text", ["[" + "[]," * 250_000 + "0]", '"' + "x" * IrSettings().max_bytes + '"'])
def test_what_is_too_large_for_a_pipeline_is_not_read_again(text: str, monkeypatch: pytest.MonkeyPatch):
    """A page of its build reads it at each view, so it has the bounds that it was rejected by."""
    with pytest.raises(IrError) as rejected:
        load(text, IrSettings())
    monkeypatch.setattr(error_position.json, "loads", lambda _: pytest.fail("it was read"))
    assert positions_of(rejected.value.message, "", text) == []


def test_of_a_missing_value_its_surroundings_are_shown():
    (found,) = positions_of("steps[0].cmd: expected a string", "", '{"steps": [{"key": "a"}]}')
    assert found.excerpt == '{\n  "key": "a"\n}'


def test_other_errors_have_no_position():
    assert positions_of("dependency cycle through a -> b", "no traceback", "{}") == []
    assert positions_of("bad: line 900 column 5", "", "{}") != []
