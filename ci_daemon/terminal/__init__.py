"""Output on a terminal: tables, times, states, and live screens."""

from __future__ import annotations

import os
import shutil
import sys
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_NO_PAGER = "cat"


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number with the word for what it counts; ``several`` is ``one`` and an s by default."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def print_paged(lines: Iterable[str]) -> None:
    """Print lines, each with its end; the program of PAGER shows more than fit on the terminal.

    Lines are taken one by one, so that the pager shows the first while others are still to come. Colours reach a pager
    that can show them.
    """
    if not _pages():
        sys.stdout.writelines(lines)
        return
    rest = iter(lines)
    screen = list(islice(rest, shutil.get_terminal_size().lines))
    if len(screen) < shutil.get_terminal_size().lines:
        sys.stdout.writelines(screen)
    else:
        click.echo_via_pager(chain(screen, rest))


def disable_pager() -> None:
    """Let this process, and the programs that it starts, print all at once."""
    os.environ["PAGER"] = _NO_PAGER


def _pages() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("PAGER") != _NO_PAGER
