"""The lines of a post-receive hook, which are a stranger's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.repositories.pushed_refs import PushedRef, pushed_refs

ZERO, A, B = "0" * 40, "a" * 40, "b" * 40


def test_each_line_is_a_head_that_moved():
    body = f"{ZERO} {A} refs/heads/main\n{A} {B} refs/tags/v1\n{B} {ZERO} refs/heads/gone\n"
    assert list(pushed_refs(body.encode())) == [
        PushedRef("refs/heads/main", None, A),
        PushedRef("refs/tags/v1", A, B),
        PushedRef("refs/heads/gone", B, None),
    ]


def test_other_lines_are_left_out():
    lines = (f"{A} {B} refs/notes/x", f"{A} -{B} refs/heads/x", f"{A} {B} refs/heads/a b", f"{A}{B} refs/heads/x", "")
    assert list(pushed_refs("\n".join(lines).encode())) == []


@given(st.binary(max_size=200))
def test_no_body_is_an_error(body: bytes):
    assert len(list(pushed_refs(body))) <= 1
