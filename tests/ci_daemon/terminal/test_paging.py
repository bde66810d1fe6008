"""Long output on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
from rich.text import Text
from ci_daemon.terminal.tables import print_renderable, two_column_table
print_renderable(two_column_table([("name", Text("value", "green"))] * {rows}))
"""
PAGER = "sed s/value/paged/"


def shown(rows: int, **environment: str) -> str:
    """Return what a table of that many rows is on a terminal of 24 lines."""
    ours, theirs = pty.openpty()
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm", "LINES": "24", "COLUMNS": "80", **environment}
    command = [sys.executable, "-c", PROGRAM.format(rows=rows)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, env=variables)
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 10_000):
            text += chunk
    except OSError:  # the end of a terminal, on Linux
        pass
    finally:
        os.close(ours)
        assert process.wait(30) == 0
    return text.decode()


def test_a_pager_shows_what_is_longer_than_the_terminal():
    assert "paged" in shown(50, PAGER=PAGER)
    assert "paged" not in shown(10, PAGER=PAGER)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_for_terminals_that_want_them(environment: dict[str, str]):
    assert "\x1b[32m" in shown(1)
    assert "\x1b" not in shown(1, **environment)


def test_a_pipe_gets_plain_lines_and_no_pager():
    environment = {"PATH": os.environ["PATH"], "PAGER": PAGER}
    command = [sys.executable, "-c", PROGRAM.format(rows=50)]
    piped = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert set(piped.splitlines()) == {"name  value"}
    assert "\x1b" not in piped
