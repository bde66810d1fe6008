from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci_daemon.submit.log_reader import LineSplitter


def split(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + list(splitter.end())


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), min_size=1), st.data())
def test_blocks_split_anywhere_give_the_same_lines(lines: list[str], data: st.DataObject):
    whole = "".join(f"{line}\n" for line in lines).encode()
    cut = data.draw(st.integers(0, len(whole)))
    assert split(whole[:cut], whole[cut:]) == lines


@given(st.binary())
def test_any_bytes_are_lines_of_text(log: bytes):
    assert all("\n" not in line for line in split(log))


def test_a_log_without_a_last_line_end_loses_nothing():
    assert split(b"a\nb") == ["a", "b"]
    assert split(b"a\n") == ["a"]
    assert split(b"caf\xc3") == ["caf\ufffd"]


def test_of_a_line_drawn_over_itself_the_last_drawing_stays():
    assert split(b"10 %\r50 %\r100 %\r\ndone\r\n") == ["100 %", "done"]


def test_a_line_without_end_comes_in_pieces():
    pieces = split(*[b"x" * 10_000] * 10)
    assert "".join(pieces) == "x" * 100_000
    assert max(map(len, pieces)) <= 16 * 1024
