"""Progress of transfers, on terminals alone."""

from __future__ import annotations

import subprocess

import pytest

from tests.ci_daemon.terminal.pseudo_terminal import shown

PROGRAM = """
from ci_daemon.terminal.progress import progress_line, transfer_progress
with transfer_progress("dist/[a]\\x1b", 2_000_000) as progress:
    progress(500_000)
    progress(2_000_000)
with progress_line("pulling") as progress:
    progress("unpacking")
"""


def test_a_bar_shows_the_name_and_the_bytes_and_goes():
    text = shown(PROGRAM)
    assert "dist/[a] " in text
    assert "2.0/2.0 MB" in text
    assert "unpacking" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


def test_a_bar_has_no_colours_where_nobody_wants_them():
    assert "\x1b[38;" in shown(PROGRAM, TERM="xterm-256color")
    assert "\x1b[38;" not in shown(PROGRAM, TERM="xterm-256color", NO_COLOR="1")


@pytest.mark.parametrize("terminal", ["dumb", "unknown"])
def test_a_terminal_without_a_cursor_shows_none(terminal: str):
    assert shown(PROGRAM, TERM=terminal) == ""


def test_a_pipe_shows_none():
    assert shown(PROGRAM, stdout=subprocess.DEVNULL) == ""
