"""Long output on a terminal, shown by the pager."""

from __future__ import annotations

import os
import shutil
import sys

import click

__all__ = ["disable_pager", "print_paged"]


def print_paged(text: str) -> None:
    """Print a text; one that is longer than the terminal is shown by the program of PAGER."""
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text, color=True)
    else:
        sys.stdout.write(text)


def disable_pager() -> None:
    """Let this process, and the programs that it starts, print all at once."""
    os.environ["PAGER"] = "cat"
