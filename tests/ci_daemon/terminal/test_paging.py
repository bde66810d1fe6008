"""Long output on a terminal and elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.ci_daemon.terminal.pseudo_terminal import shown

PROGRAM = """
from rich.text import Text
from ci_daemon.terminal.tables import print_renderable, two_column_table
print_renderable(two_column_table([("name", Text("value", "green"))] * {rows}))
"""
ENDLESS = """
from itertools import count
from ci_daemon.terminal import print_paged
print_paged(f"{each}\\n" for each in count())
"""
PAGER = "sed s/value/paged/"


def test_a_pager_shows_what_is_longer_than_the_terminal():
    assert "paged" in shown(PROGRAM.format(rows=50), PAGER=PAGER)
    assert "paged" not in shown(PROGRAM.format(rows=10), PAGER=PAGER)


def test_a_pager_that_is_left_ends_what_it_shows():
    assert shown(ENDLESS, PAGER="head -n 2").split() == ["0", "1"]


def test_without_a_pager_long_output_keeps_its_colours():
    assert shown(PROGRAM.format(rows=50), PAGER="cat").count("\x1b[32m") == 50


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_for_terminals_that_want_them(environment: dict[str, str]):
    assert "\x1b[32m" in shown(PROGRAM.format(rows=1))
    assert "\x1b" not in shown(PROGRAM.format(rows=1), **environment)


def test_a_pipe_gets_plain_lines_and_no_pager():
    environment = {"PATH": os.environ["PATH"], "PAGER": PAGER}
    command = [sys.executable, "-c", PROGRAM.format(rows=50)]
    piped = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert set(piped.splitlines()) == {"name  value"}
    assert "\x1b" not in piped
