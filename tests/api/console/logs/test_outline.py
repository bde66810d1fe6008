"""The outline of a log and its search, against simple readings of the whole."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from api.console.logs import BLOCK_BYTES, LogOutline, search


@dataclass
class Bytes:
    content: bytes

    def read(self, start: int, length: int) -> bytes:
        return self.content[start : start + length]


LOG = b"one\n::group::A <b>\nin A\n::group::B\nin B\n::endgroup::\n::endgroup::\nno ::group:: here\n::group::open\nx"


def test_groups_nest_and_may_stay_open():
    outline = LogOutline()
    outline.extend(Bytes(LOG), len(LOG))
    assert [(each.title, each.first, each.last) for each in outline.groups] == [
        ("A <b>", 1, 6),
        ("B", 3, 5),
        ("open", 8, None),
    ]
    assert outline.newlines == [LOG.count(b"\n")]


@given(st.lists(st.integers(1, len(LOG)), max_size=8))
def test_an_outline_grows_in_any_steps(sizes: list[int]):
    whole, grown = LogOutline(), LogOutline()
    whole.extend(Bytes(LOG), len(LOG))
    for size in (*sorted(sizes), len(LOG)):
        grown.extend(Bytes(LOG), size)
    assert (grown.groups, grown.newlines, grown.size) == (whole.groups, whole.newlines, whole.size)


def test_line_breaks_are_counted_by_block():
    log = (b"x" * 99 + b"\n") * 3000
    outline = LogOutline()
    outline.extend(Bytes(log), len(log))
    blocks = [log[at : at + BLOCK_BYTES] for at in range(0, len(log), BLOCK_BYTES)]
    assert outline.newlines == [block.count(b"\n") for block in blocks]


@given(st.lists(st.sampled_from(["Ab", "b", "xx", "é", ""]), max_size=30), st.sampled_from(["ab", "B", "x", "é", "?"]))
def test_search_finds_the_lines_with_the_text(lines: list[str], text: str):
    log = "\n".join(lines).encode()
    expected = [number for number, line in enumerate(lines) if text.lower() in line.lower()]
    found = search(Bytes(log), len(log), text, 5)
    assert (found.count, list(found.lines)) == (len(expected), expected[:5])


def test_search_crosses_the_pieces():
    log = b"a" * (2**20 - 2) + b"\n" + b"needle\n" * 3
    assert search(Bytes(log), len(log), "NEEDLE", 9).lines == (1, 2, 3)
