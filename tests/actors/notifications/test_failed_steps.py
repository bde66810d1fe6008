"""The last lines of a log, as they go into a mail."""

from __future__ import annotations

import pytest

from actors.notifications.messages import last_lines


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (b"one\ntwo\n", ("one", "two")),
        (b"one\r\ntwo\r\n", ("one", "two")),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain\n", ("red plain",)),
        (b"10%\r50%\r100%\ndone", ("100%", "done")),
        (b"a\x00b\x07c\xe2\x80\xae d\n", ("abc d",)),
        (b"\n\n  indented\n\n", ("  indented",)),
        (b"caf\xc3\xa9 \xff\n", ("caf\u00e9 \ufffd",)),
        (b"", ()),
        (b"\x1b[2J\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\\n", ("click",)),
    ],
)
def test_lines_are_shown_without_what_moves_a_terminal(log: bytes, lines: tuple[str, ...]):
    assert last_lines(log, whole=True) == lines


def test_only_the_last_lines_are_kept_and_long_ones_cut():
    log = b"".join(b"%d %s\n" % (number, b"x" * 500) for number in range(100))
    lines = last_lines(log, whole=True)
    assert (len(lines), lines[0][:3], lines[-1][-2:]) == (20, "80 ", "x…")


def test_a_log_that_is_cut_begins_with_its_first_whole_line():
    assert last_lines(b"st of a line\nwhole\n", whole=False) == ("whole",)
