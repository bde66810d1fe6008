from __future__ import annotations

import re

import pytest

from storage import pattern


def test_a_pattern_is_compiled_when_it_is_used():
    word = pattern(r"[a-z]+", re.IGNORECASE)
    assert "match" not in vars(word)
    found = word.fullmatch("aB")
    assert found is not None
    assert vars(word)["match"]
    assert word.pattern == r"[a-z]+"
    assert word.sub("-", "a1b") == "-1-"


def test_a_pattern_of_bytes_finds_bytes():
    assert pattern(rb"[a-z]+").findall(b"a1bc") == [b"a", b"bc"]


def test_a_wrong_pattern_raises_at_its_first_use():
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("a")
