from __future__ import annotations

from string import ascii_letters, digits

from hypothesis import given
from hypothesis import strategies as st

from api.signing import Signer

SIGNER = Signer(b"k" * 32)

Value = int | list[str | int]
VALUES = st.integers() | st.lists(st.uuids().map(str) | st.integers(), max_size=3)


@given(VALUES, st.text(max_size=10))
def test_what_was_signed_opens_for_its_purpose_only(value: Value, purpose: str):
    text = SIGNER.sign(purpose, value)

    assert SIGNER.open(purpose, text) == value
    assert SIGNER.open(purpose + "x", text) is None
    assert Signer(b"l" * 32).open(purpose, text) is None


@given(st.text(max_size=80))
def test_any_other_text_opens_nothing(text: str):
    assert SIGNER.open("purpose", text) is None


@given(VALUES, st.data())
def test_a_changed_text_opens_nothing(value: Value, data: st.DataObject):
    text = SIGNER.sign("purpose", value)
    cut = data.draw(st.integers(0, len(text) - 1))

    assert SIGNER.open("purpose", text[:cut]) is None


@given(VALUES, st.data())
def test_another_last_character_opens_nothing(value: Value, data: st.DataObject):
    text = SIGNER.sign("purpose", value)
    other = data.draw(st.sampled_from((ascii_letters + digits + "-_=").replace(text[-1], "")))

    assert SIGNER.open("purpose", text[:-1] + other) is None
    assert SIGNER.open("purpose", text + other) is None
