from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.files.masking import Masker

FEW = st.binary(min_size=1, max_size=6).map(lambda data: bytes(byte % 3 + 97 for byte in data))
PATTERNS = st.lists(st.one_of(FEW, st.binary(min_size=1, max_size=12)), max_size=6)
OUTPUT = st.lists(st.one_of(FEW, st.binary(max_size=8)), max_size=30).map(b"".join)


def _plainly(patterns: Sequence[bytes], data: bytes) -> bytes:
    """Mask from left to right, the longest pattern first: a slow reference for `Masker`."""
    masked, place = b"", 0
    while place < len(data):
        longest = max((len(each) for each in patterns if data.startswith(each, place)), default=0)
        masked += b"***" if longest else data[place : place + 1]
        place += longest or 1
    return masked


def _in_pieces(masker: Masker, data: bytes, cuts: Sequence[int]) -> bytes:
    masked, begin = b"", 0
    for cut in sorted({min(cut, len(data)) for cut in cuts}):
        if cut > begin:
            piece, consumed = masker.mask(data[begin:cut], more=True)
            masked += piece
            begin += consumed
    return masked + masker.mask(data[begin:], more=False)[0]


@given(PATTERNS, OUTPUT)
def test_the_leftmost_goes_first_and_of_those_the_longest(patterns: list[bytes], data: bytes):
    assert Masker(patterns).mask(data, more=False) == (_plainly(patterns, data), len(data))


WORDS = st.lists(st.sampled_from([b"aaaaaaaa", b"aaaaaaaab", b"bbbbbbbb", b"/", b"%2F", b"+"]), min_size=1, max_size=4)
SENTENCES = WORDS.map(b"".join)


@given(st.lists(SENTENCES, max_size=5), st.lists(SENTENCES, max_size=8).map(b"".join))
def test_patterns_that_share_words_are_masked(patterns: list[bytes], data: bytes):
    assert Masker(patterns).mask(data, more=False) == (_plainly(patterns, data), len(data))


@given(PATTERNS, OUTPUT, st.lists(st.integers(0, 200), max_size=40))
def test_however_output_is_cut_up_it_is_masked_the_same(patterns: list[bytes], data: bytes, cuts: list[int]):
    masker = Masker(patterns)
    assert _in_pieces(masker, data, cuts) == _plainly(patterns, data)
    assert _in_pieces(masker, data, range(len(data))) == _plainly(patterns, data)


@given(PATTERNS, OUTPUT)
def test_what_waits_begins_a_pattern_and_nothing_else_does(patterns: list[bytes], data: bytes):
    _, consumed = Masker(patterns).mask(data, more=True)
    rest = data[consumed:]
    assert not rest or any(each.startswith(rest) and each != rest for each in patterns)
    assert len(rest) < max(map(len, patterns), default=1)


def test_what_is_decided_does_not_wait():
    masker = Masker([b"secret", b"secretary"])
    assert masker.mask(b"a secre", more=True) == (b"a ", 2)
    assert masker.mask(b"a secret", more=True) == (b"a ", 2)
    assert masker.mask(b"a secret ", more=True) == (b"a *** ", 9)
    assert masker.mask(b"a secretary", more=True) == (b"a ***", 11)
    assert masker.mask(b"a secret", more=False) == (b"a ***", 8)
    assert masker.mask(b"a secre", more=False) == (b"a secre", 7)


def test_a_masker_of_nothing_changes_nothing():
    data = b"as it is" * 1000
    masked, consumed = Masker().mask(data, more=True)
    assert masked is data
    assert consumed == len(data)


def test_a_text_is_masked_whole():
    assert Masker.hiding(["passwörd"]).masked("it was passwörd, \ud800") == "it was ***, ?"


@pytest.mark.parametrize("pattern", [b"a" * 60_000 + b"b", b"ab" * 30_000, b"b" + b"a" * 60_000])
def test_no_pattern_makes_it_slow(pattern: bytes):
    masker = Masker([pattern])
    began = time.process_time()
    masker.mask(b"a" * 200_000, more=True)
    assert time.process_time() - began < 5
