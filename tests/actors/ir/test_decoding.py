"""Texts that are not JSON, and the position of the fault."""

from __future__ import annotations

import json
import sys

import pytest

from actors.ir import IrSettings, load
from tests.actors.ir.documents import graph, node, planned, refusal

NOT_JSON = "the pipeline IR is not valid JSON: "


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value: line 1 column 1"),
        ("  \n ", "Expecting value: line 2 column 2"),
        ("{\n  'version': 0}", "Expecting property name enclosed in double quotes: line 2 column 3"),
        ('{"version": "0"} x', "Extra data: line 1 column 18"),
        ('{"a": "b\nc"}', "Invalid control character at: line 1 column 9"),
        ('"a', "Unterminated string starting at: line 1 column 1"),
        ('{"a": "NaN",\n "b": NaN}', "NaN is not a JSON number: line 2 column 7"),
        ("[1, Infinity]", "Infinity is not a JSON number: line 1 column 5"),
        ("[-Infinity]", "-Infinity is not a JSON number: line 1 column 2"),
        ("NaNx", "NaN is not a JSON number: line 1 column 1"),
        ('["\ud800"]', "not valid UTF-8: line 1 column 3"),
        ('\n"a\udcff', "not valid UTF-8: line 2 column 3"),
        (r'["\ud83d\ude00", "\ud800"]', "half of a surrogate pair: line 1 column 19"),
        (r'["\udc00\ud800"]', "half of a surrogate pair: line 1 column 3"),
        (r'["\\ud800", "\\\uD800"]', "half of a surrogate pair: line 1 column 16"),
        (r'{"\udfff": 1}', "half of a surrogate pair: line 1 column 3"),
    ],
)
def test_invalid_json_is_refused_with_line_and_column(text: str, why: str):
    assert refusal(text) == ("invalid_json", NOT_JSON + why)


@pytest.mark.parametrize(
    ("text", "column"),
    [("[1.%s, %s]", 5006), ("[%s.5, %s]", 5006), ('["%s", -%s]', 5006), ("[%s", 2), ("%se", 1), ("[%sNaN]", 2)],
)
def test_a_number_with_too_many_digits_is_refused(text: str, column: int):
    digits = "7" * 5000
    assert len(digits) > sys.get_int_max_str_digits()
    why = f"a number with too many digits: line 1 column {column}"
    assert refusal(text.replace("%s", digits)) == ("invalid_json", NOT_JSON + why)


def test_long_fractions_and_huge_exponents_are_numbers():
    text = json.dumps(graph(node("a")))[:-1] + f', "a": 0.{"7" * 5000}, "b": 1e999, "c": {"7" * 5000}.5}}'
    assert load(text, IrSettings()).jobs


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("[" * 100_000, 100_000),
        ("[" * 100_000 + "]" * 50_000 + "[]", 100_000),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, 5 * 100_000 - 4),
        ('[[], "[[[", ' + "[" * 100_000 + '"' + '\\"[' * 100_000, 12 + 100_000),
    ],
)
def test_too_deep_nesting_is_refused_with_its_place(text: str, column: int):
    assert refusal(text) == ("invalid_json", f"{NOT_JSON}nested too deeply: line 1 column {column}")


@pytest.mark.parametrize("empty", ["[],", '{"a":[]},'])
def test_very_many_lists_and_objects_are_refused(empty: str):
    """They would keep the interpreter, and with it everybody's requests, for a second."""
    text = f"[{empty * 250_000}0]"
    assert refusal(text) == ("invalid_ir", "the pipeline IR has more than 250000 lists and objects")


def test_characters_beyond_the_basic_plane_work_in_both_forms():
    document = graph(node("a", cmd="echo 🚀 \\ud800"))
    escaped, plain = json.dumps(document), json.dumps(document, ensure_ascii=False)
    assert "\\ud83d\\ude80" in escaped
    assert load(escaped, IrSettings()) == load(plain, IrSettings()) == planned(document)
    assert load(plain, IrSettings()).jobs[0].command == "echo 🚀 \\ud800"
