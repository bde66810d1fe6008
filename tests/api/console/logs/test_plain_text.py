"""Log bytes as plain text."""

from __future__ import annotations

import pytest

from api.console.pages import plain_text


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mtrue\x1b[m \x1b[48;5;9mback\x1b[K", "true back"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("\x1b]0;title\x07a\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("bell\x07 null\x00 tab\t", "bell null tab\t"),
        ("\x1b(B\x1bMx", "(Bx"),
    ],
)
def test_only_text_is_left(log: str, shown: str):
    assert plain_text(log) == shown
